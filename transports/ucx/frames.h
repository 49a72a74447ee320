// What travels between two ranks over UCX, and by which tags.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transports/transport.h"

namespace tutti::ucx {

// A question is answered as soon as it is seen: all that was sent before it has arrived.
enum class Kind : uint8_t { frame, rest, credit, leaving, question, answer };

// Messages of one tag between two ranks keep their order.
inline uint64_t tag_of(Kind kind, Rank source, ChannelId channel = ChannelId{0}) {
  return uint64_t{static_cast<uint8_t>(kind)} << 56 | uint64_t{uint16_t{channel}} << 32 | uint32_t{source};
}

struct FrameHeader {
  uint64_t tag;
  uint64_t sequence;
  uint64_t bytes;  // of the message
};
constexpr size_t kFrameBytes = 4096;
constexpr size_t kInlineBytes = kFrameBytes - sizeof(FrameHeader);  // longer messages have a rest: all of their bytes

// How many messages of a link may be under way, and after how many releases the sender is told.
constexpr uint64_t kDepth = 8, kReleasesPerCredit = kDepth / 2;

}  // namespace tutti::ucx
