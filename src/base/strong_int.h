// StrongInt: an integer that is made explicitly and read freely, so that a slot, a count and a rank cannot be swapped
// by accident while arithmetic on them stays plain: `Rank{(self + 1) % nranks}`.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace tutti {

template <class Tag, class Int>
class StrongInt {
 public:
  constexpr StrongInt() = default;
  constexpr explicit StrongInt(Int value) : value_(value) {}
  constexpr operator Int() const { return value_; }  // NOLINT(google-explicit-constructor)
  constexpr StrongInt& operator++() {
    ++value_;
    return *this;
  }

 private:
  Int value_ = 0;
};

using Rank = StrongInt<struct RankTag, uint32_t>;          // 0..nranks-1 of one communicator
using ChunkId = StrongInt<struct ChunkIdTag, uint32_t>;    // 0..Plan::chunks-1
using LaneId = StrongInt<struct LaneIdTag, uint16_t>;      // index into Plan::lanes
using PeerSlot = StrongInt<struct PeerSlotTag, uint16_t>;  // index into Lane::peers
using ChannelId = StrongInt<struct ChannelIdTag, uint16_t>;  // one of the parallel FIFOs between two ranks

}  // namespace tutti

template <class Tag, class Int>
struct std::hash<tutti::StrongInt<Tag, Int>> {
  size_t operator()(tutti::StrongInt<Tag, Int> v) const noexcept { return std::hash<Int>()(static_cast<Int>(v)); }
};
