#include "perf/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace tutti::perf {
namespace {

constexpr uint64_t kBackgroundSeed = 0x6261636b67726f75ULL;
constexpr size_t kPieceBytes =
    16 << 10;  // compared at a time: expectation and memory both stay in the first-level cache

// A buffer as a run of elements: index 0 is the first guard element, `origin` that of data().
struct Extent {
  size_t origin, elements;
};

Extent extent_of(const CheckedCall& call, size_t used) {
  const size_t guard = kGuardBytes / type_bytes(call.type);
  return {guard, guard + used + guard};
}

struct Span {
  size_t first, count;
  bool contains(size_t i) const { return i >= first && i - first < count; }
  bool covers(const Span& other) const { return contains(other.first) && other.count <= count - (other.first - first); }
};

// Calls write(element of the source, count, where) for the part of `source` that lies in `piece`.
template <class Write>
void overlay(const Span& piece, const Span& source, size_t element_bytes, std::byte* out, Write write) {
  const size_t first = std::max(piece.first, source.first);
  const size_t last = std::min(piece.first + piece.count, source.first + source.count);
  if (first < last) write(first - source.first, last - first, out + (first - piece.first) * element_bytes);
}

// One buffer of a call, before and after it.
class Image {
 public:
  Image(const CheckedCall& call, const Pattern& pattern, bool receives)
      : call_(call), pattern_(pattern), bytes_(type_bytes(call.type)), receives_(receives) {
    const Parts parts = parts_of(call);
    const Window& w = call.window;
    const size_t used = call.in_place ? std::max(w.send, w.recv) : receives ? w.recv : w.send;
    extent_ = extent_of(call, used);
    if (call.in_place || !receives) input_ = {extent_.origin + parts.send_first, w.send};
    if (receives) output_ = {extent_.origin + parts.recv_first, w.recv};
  }

  size_t elements() const { return extent_.elements; }
  std::byte* start(Buffer& buffer) const { return buffer.data() - extent_.origin * bytes_; }
  const std::byte* start(const Buffer& buffer) const { return buffer.data() - extent_.origin * bytes_; }
  bool in_output(size_t i) const { return output_.contains(i); }
  long from_output(size_t i) const { return static_cast<long>(i) - static_cast<long>(output_.first); }
  long from_data(size_t i) const { return static_cast<long>(i) - static_cast<long>(extent_.origin); }

  void before(const Span& piece, std::byte* out) const {
    if (!input_.covers(piece)) fill_stream(kBackgroundSeed, piece.first * bytes_, piece.count * bytes_, out);
    overlay(piece, input_, bytes_, out,
            [&](size_t first, size_t count, std::byte* to) { pattern_.input(call_.job.rank, first, count, to); });
  }

  void after(const Span& piece, std::byte* out) const {
    if (!receives_) return before(piece, out);
    // Blocks ascend and do not overlap, so the first that may matter is found by bisection: n blocks cost nothing here.
    const auto span_of = [&](const Block& b) { return Span{output_.first + b.recv_first, b.count}; };
    const auto ends_before = [&](const Block& b, size_t first) { return span_of(b).first + b.count <= first; };
    auto block = std::lower_bound(call_.blocks.begin(), call_.blocks.end(), piece.first, ends_before);
    const bool covered = block != call_.blocks.end() && span_of(*block).covers(piece);
    if (!covered) before(piece, out);
    for (; block != call_.blocks.end() && output_.first + block->recv_first < piece.first + piece.count; ++block) {
      overlay(piece, span_of(*block), bytes_, out, [&](size_t first, size_t count, std::byte* to) {
        if (block->from == Block::From::reduction) {
          pattern_.result(block->source_first + first, count, to);
        } else {
          pattern_.input(block->source, block->source_first + first, count, to);
        }
      });
    }
  }

 private:
  const CheckedCall& call_;
  const Pattern& pattern_;
  size_t bytes_;
  bool receives_;
  Extent extent_{};
  Span input_{}, output_{};
};

std::string bits_in_words(tuttiDataType_t type, const std::byte* element) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, type_bytes(type));
  return fmt::format("{} (0x{:0{}x})", element_value(type, bits), bits, 2 * type_bytes(type));
}

void compare(const CheckedCall& call, const Image& image, const Buffer& buffer, std::string_view what, Wrong& wrong) {
  const size_t bytes = type_bytes(call.type), step = kPieceBytes / bytes;
  std::array<std::byte, kPieceBytes> expected;
  const std::byte* memory = image.start(buffer);
  for (size_t first = 0; first < image.elements(); first += step) {
    const Span piece{first, std::min(step, image.elements() - first)};
    image.after(piece, expected.data());
    const std::byte* found = memory + first * bytes;
    if (std::memcmp(found, expected.data(), piece.count * bytes) == 0) continue;
    for (size_t i = 0; i < piece.count; ++i) {
      if (std::memcmp(found + i * bytes, expected.data() + i * bytes, bytes) == 0) continue;
      const bool inside = image.in_output(first + i);
      ++(inside ? wrong.elements : wrong.out_of_bounds);
      if (!wrong.first.empty()) continue;
      wrong.first = fmt::format("{} element {} is {}, expected {}{}", what,
                                inside ? image.from_output(first + i) : image.from_data(first + i),
                                bits_in_words(call.type, found + i * bytes),
                                bits_in_words(call.type, expected.data() + i * bytes),
                                inside ? "" : " (memory that the call must not change)");
    }
  }
}

void fill_one(const CheckedCall& call, const Image& image, Buffer& buffer) {
  const size_t bytes = type_bytes(call.type), step = kPieceBytes / bytes;
  std::byte* memory = image.start(buffer);
  for (size_t first = 0; first < image.elements(); first += step)
    image.before({first, std::min(step, image.elements() - first)}, memory + first * bytes);
}

}  // namespace

Parts parts_of(const CheckedCall& call) {
  if (!call.in_place) return {};
  const auto rank = static_cast<size_t>(call.job.rank);
  return {rank * call.window.in_place_send_stride, rank * call.window.in_place_recv_stride};
}

void fill(const CheckedCall& call, const Pattern& pattern, Buffer& send, Buffer& recv) {
  fill_one(call, Image(call, pattern, true), recv);
  if (!call.in_place) fill_one(call, Image(call, pattern, false), send);
}

Wrong find_wrong(const CheckedCall& call, const Pattern& pattern, const Buffer& send, const Buffer& recv) {
  Wrong wrong;
  compare(call, Image(call, pattern, true), recv, "received", wrong);
  if (!call.in_place) compare(call, Image(call, pattern, false), send, "sent", wrong);
  return wrong;
}

}  // namespace tutti::perf
