#include "reduce/stream.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "reduce/fold_call.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/stream.cc"
#include "reduce/disabled_targets.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The whole lines of a copy to an aligned address; returns how many bytes it did.
size_t stream_lines(uint8_t* HWY_RESTRICT to, const uint8_t* HWY_RESTRICT from, size_t bytes) {
#if HWY_TARGET == HWY_SCALAR
  (void)to, (void)from, (void)bytes;
  return 0;
#else
  constexpr size_t kLineBytes = 64;
  const hn::CappedTag<uint8_t, kLineBytes> d;
  const size_t lanes = hn::Lanes(d);
  const size_t end = bytes / kLineBytes * kLineBytes;
  for (size_t offset = 0; offset < end; offset += kLineBytes)
    for (size_t i = 0; i < kLineBytes; i += lanes) hn::Stream(hn::LoadU(d, from + offset + i), d, to + offset + i);
  return end;
#endif
}

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(stream_lines);

namespace {

constexpr size_t kLineBytes = kStreamAlignment;
// A part of a fold whose results cannot be streamed as they come: it is folded into the first-level cache and copied
// from there.
constexpr size_t kBlockBytes = 4096;

void copy_unordered(void* to, const void* from, size_t bytes) {
  if (to == from || bytes == 0) return;
  auto* t = static_cast<uint8_t*>(to);
  const auto* f = static_cast<const uint8_t*>(from);
  const size_t head = std::min<size_t>(bytes, -reinterpret_cast<uintptr_t>(t) % kLineBytes);
  std::memcpy(t, f, head);
  const size_t done = head + HWY_DYNAMIC_DISPATCH(stream_lines)(t + head, f + head, bytes - head);
  std::memcpy(t + done, f + done, bytes - done);
}

// Pointers moved on by some bytes, without allocation for the usual few of them.
template <class T>
class Shifted {
 public:
  explicit Shifted(std::span<T* const> pointers) : pointers_(pointers) {
    if (pointers.size() > few_.size()) many_.resize(pointers.size());
  }
  std::span<T* const> by(size_t bytes) {
    T** const out = many_.empty() ? few_.data() : many_.data();
    using Byte = std::conditional_t<std::is_const_v<T>, const uint8_t, uint8_t>;
    for (size_t i = 0; i < pointers_.size(); ++i) out[i] = static_cast<Byte*>(pointers_[i]) + bytes;
    return {out, pointers_.size()};
  }

 private:
  std::span<T* const> pointers_;
  std::array<T*, 16> few_;
  std::vector<T*> many_;
};

// A fold with streamed results, part by part.
class StreamedFold {
 public:
  StreamedFold(const FoldSpec& spec, std::span<const void* const> operands, int own_operand, bool complete,
               std::span<void* const> results, std::span<void* const> streamed)
      : spec_(spec),
        own_operand_(own_operand),
        complete_(complete),
        copies_(is_copy(spec, operands.size(), own_operand, complete)),
        operands_(operands),
        results_(results),
        streamed_(streamed) {}

  void run(size_t count) {
    size_t done = copies_ ? 0 : elements_before_a_line(count);
    if (done < count && !copies_) {
      by_blocks(0, done);
      const size_t offset = done * element_bytes_;
      done += fold_groups_past_cache(spec_, operands_.by(offset), own_operand_, complete_, results_.by(offset),
                                     streamed_.by(offset), count - done);
    } else {
      done = 0;
    }
    by_blocks(done, count);
  }

 private:
  // How many elements lie before the first at which all streamed results begin a line; `count` where none does.
  size_t elements_before_a_line(size_t count) {
    const auto streamed = streamed_.by(0);
    const auto place_in_line = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % kLineBytes; };
    const size_t bytes = (kLineBytes - place_in_line(streamed[0])) % kLineBytes;
    const bool together =
        std::ranges::all_of(streamed, [&](void* p) { return place_in_line(p) == place_in_line(streamed[0]); });
    return together && bytes % element_bytes_ == 0 ? std::min(count, bytes / element_bytes_) : count;
  }

  void by_blocks(size_t begin, size_t end) {
    alignas(kLineBytes) std::array<uint8_t, kBlockBytes> block;
    void* const own_block = block.data();
    const size_t step = kBlockBytes / element_bytes_;
    for (size_t done = begin; done < end; done += step) {
      const size_t part = std::min(step, end - done), offset = done * element_bytes_;
      const std::span<const void* const> from = operands_.by(offset);
      std::span<void* const> to = results_.by(offset);
      const void* folded = copies_ ? from[0] : to.empty() ? own_block : to[0];
      if (!copies_ && to.empty()) to = {&own_block, 1};
      if (!to.empty()) fold(spec_, from, own_operand_, complete_, to, part);
      for (void* result : streamed_.by(offset)) copy_unordered(result, folded, part * element_bytes_);
    }
  }

  const FoldSpec& spec_;
  const size_t element_bytes_ = size_of(spec_.type);
  const int own_operand_;
  const bool complete_, copies_;
  Shifted<const void> operands_;
  Shifted<void> results_, streamed_;
};

}  // namespace

void stream_copy(void* to, const void* from, size_t bytes) {
  copy_unordered(to, from, bytes);
  hwy::FlushStream();
}

void fold_past_caches(const FoldSpec& spec, std::span<const void* const> operands, int own_operand, bool complete,
                      std::span<void* const> results, std::span<void* const> streamed, size_t count) {
  StreamedFold(spec, operands, own_operand, complete, results, streamed).run(count);
  hwy::FlushStream();
}

}  // namespace tutti
#endif  // HWY_ONCE
