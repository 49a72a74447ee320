#include "ends.h"

#include <algorithm>
#include <cstring>

#include "base/rng.h"

namespace tutti::conformance {
namespace {

constexpr size_t kGuardBytes = 40;
constexpr std::byte kGuard{0xc3};
constexpr std::byte kScribble{0xdb};

// The sizes of the pieces that `cuts` (ascending; a repeated one makes an empty piece) leave of `bytes`.
std::vector<size_t> piece_sizes(size_t bytes, const std::vector<size_t>& cuts) {
  std::vector<size_t> sizes;
  size_t first = 0;
  for (size_t cut : cuts) {
    cut = std::clamp(cut, first, bytes);
    sizes.push_back(cut - first);
    first = cut;
  }
  sizes.push_back(bytes - first);
  return sizes;
}

}  // namespace

Bytes payload(uint64_t seed, size_t bytes) {
  Bytes out(bytes);
  Rng rng(seed * 0x9e3779b9 + 1);
  for (size_t at = 0; at < bytes; at += 8) {
    const uint64_t word = rng.next();
    std::memcpy(out.data() + at, &word, std::min<size_t>(8, bytes - at));
  }
  return out;
}

Result<bool> Sender::try_send(const Bytes& message, const Stamp& stamp, const std::vector<size_t>& cuts) {
  scribble_over_retired();
  if (link_->mapped()) {
    TUTTI_TRY_ASSIGN(const Room room, link_->claim(message.size()));
    if (!room) return false;
    if (!message.empty()) std::memcpy(room.data, message.data(), message.size());
    link_->post(message.size(), stamp);
    ++sent_;
    return true;
  }
  Bytes copy = message;
  std::vector<ConstPiece> pieces;
  const std::byte* at = copy.data();
  for (size_t bytes : piece_sizes(copy.size(), cuts)) {
    pieces.push_back({at, bytes});
    at += bytes;
  }
  TUTTI_TRY_ASSIGN(const bool taken, link_->put(pieces, stamp));
  if (!taken) return false;
  kept_.push_back(std::move(copy));  // a moved vector keeps its memory, which is what the link reads
  ++sent_;
  scribble_over_retired();
  return true;
}

void Sender::scribble_over_retired() {
  while (!kept_.empty() && scribbled_ < link_->retired()) {
    std::ranges::fill(kept_.front(), kScribble);
    kept_.pop_front();
    ++scribbled_;
  }
}

void Sender::detach() {
  if (link_->mapped()) return;
  link_->detach();
  scribble_over_retired();
}

void Receiver::lay_out(size_t bytes, const std::vector<size_t>& cuts) {
  const std::vector<size_t> sizes = piece_sizes(bytes, cuts);
  room_.assign(bytes + (sizes.size() + 1) * kGuardBytes, kGuard);
  pieces_.clear();
  std::byte* at = room_.data() + kGuardBytes;
  for (size_t size : sizes) {
    pieces_.push_back({at, size});
    at += size + kGuardBytes;
  }
  laid_out_ = true;
}

Bytes Receiver::collect() {
  Bytes message;
  const std::byte* guard = room_.data();
  const auto check_guard = [&] {
    guards_intact_ &= std::all_of(guard, guard + kGuardBytes, [](std::byte b) { return b == kGuard; });
  };
  guards_intact_ = true;
  check_guard();
  for (const MutablePiece& piece : pieces_) {
    message.insert(message.end(), piece.data, piece.data + piece.bytes);
    guard = piece.data + piece.bytes;
    check_guard();
  }
  return message;
}

Result<std::optional<Bytes>> Receiver::try_receive(size_t bytes, const Stamp& stamp, const std::vector<size_t>& cuts) {
  if (!laid_out_) lay_out(bytes, cuts);
  auto arrival = link_->receive(pieces_, bytes, stamp);
  if (!arrival.ok()) return arrival.status();
  last_ = *arrival;
  if (last_.state == Arrival::State::pending) return std::optional<Bytes>();
  Bytes message = link_->mapped() || last_.state == Arrival::State::mismatch ? Bytes() : collect();
  if (last_.state == Arrival::State::mismatch) return std::optional<Bytes>(std::move(message));
  if (link_->mapped()) message.assign(last_.data, last_.data + bytes);
  link_->release();
  laid_out_ = false;
  return std::optional<Bytes>(std::move(message));
}

}  // namespace tutti::conformance
