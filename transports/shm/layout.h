// What lies where in an inbox. Shared between processes that run the same version (address.h carries it): fixed-width
// fields, lock-free atomics, and all-zero bytes are the valid initial state of everything but InboxHeader::token.
//
//   page 0     InboxHeader
//   page 1..   one section per (source rank, channel), in that order:
//                page 0    LinkPage: credits, waiting flags, one line per slot
//                then      depth slots of slot_bytes
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/shareable.h"
#include "transports/transport.h"

namespace tutti::shm {

constexpr size_t kPageBytes = 4096;
constexpr size_t kLineBytes = 64;
constexpr uint32_t kMaxDepth = 16;
constexpr size_t kInlineBytes = 40;

using Token = std::array<std::byte, 16>;

struct InboxHeader {
  Token token;  // written once before the address is given away; a mapping that shows another one is not this inbox

  // 1: the owner has left on purpose and posts nothing more.
  alignas(kLineBytes) std::atomic<uint32_t> closed;
  // 1: the owner is about to sleep in poll() or does so; whoever exchanges it to 0 rings the doorbell.
  alignas(kLineBytes) std::atomic<uint32_t> sleeping;
};
static_assert(sizeof(InboxHeader) <= kPageBytes);

// One cache line announces one message; up to kInlineBytes of payload travel in it, so that a small message costs the
// receiver one cache miss. The payload comes first because claimed room must be 64-byte aligned.
struct alignas(kLineBytes) SlotLine {
  std::byte payload[kInlineBytes];
  std::atomic<uint64_t> sequence;  // n + 1: the n-th message of the link (from 0) lies in this slot
  uint64_t tag;
  uint32_t stamp_sequence;
  uint32_t size;  // bytes, plus kInlineFlag when they lie in `payload`
};
static_assert(sizeof(SlotLine) == kLineBytes);
// In SlotLine::size. A message lies in the line, or else in the slot, in the sender's memory or in the receiver's.
constexpr uint32_t kInlineFlag = uint32_t{1} << 31;
constexpr uint32_t kLentFlag = uint32_t{1} << 30;     // where the MemoryPlace in `payload` says
constexpr uint32_t kGrantedFlag = uint32_t{1} << 29;  // where the receiver has granted
constexpr uint32_t kOfferFlag = uint32_t{1} << 28;    // `payload` is a MemoryPlace: the sender would like to lend from it
constexpr uint32_t kSizeMask = kOfferFlag - 1;

// A place in shareable memory, as it is told to a peer.
struct MemoryPlace {
  RegionName region;
  uint64_t offset;
  uint32_t offer;  // with kOfferFlag: its number mod kOffers
  uint32_t bytes;  // of the message
};
static_assert(sizeof(MemoryPlace) <= kInlineBytes);

// Receiver to sender: message number `message` - 1 may be written straight to `place`.
struct alignas(kLineBytes) GrantLine {
  std::atomic<uint64_t> message;
  MemoryPlace place;
};
static_assert(sizeof(GrantLine) == kLineBytes);
constexpr uint32_t kOffers = 32;

struct LinkPage {
  // Receiver to sender: how many messages it has released. Sender and receiver each write lines of their own.
  alignas(kLineBytes) std::atomic<uint64_t> consumed;
  alignas(kLineBytes) std::atomic<uint32_t> receiver_waits;  // ring the receiver when a message is posted
  alignas(kLineBytes) std::atomic<uint32_t> sender_waits;    // ring the sender when a slot is freed
  SlotLine slots[kMaxDepth];
  // Receiver to sender. One line a slot: the grant of message n lies at n mod depth. And the ids of the sender's regions
  // that the receiver has mapped, by the number of the offer.
  GrantLine grants[kMaxDepth];
  alignas(kLineBytes) std::atomic<uint64_t> mapped[kOffers];
};
static_assert(sizeof(LinkPage) <= kPageBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

struct Geometry {
  uint64_t slot_bytes = 0;  // a multiple of the page
  uint32_t depth = 0;       // a power of two
  uint32_t nranks = 0;
  bool operator==(const Geometry&) const = default;

  size_t section_bytes() const { return kPageBytes + depth * slot_bytes; }
  size_t section_offset(Rank source, ChannelId channel) const {
    return kPageBytes + (size_t{source} * Transport::kMaxChannels + channel) * section_bytes();
  }
  size_t inbox_bytes() const { return section_offset(Rank{nranks}, ChannelId{0}); }
};

constexpr uint64_t kMaxSlotBytes = uint64_t{16} << 20;
static_assert(kMaxSlotBytes <= kSizeMask);

// About 8 MiB per rank when all peers of one host have used one channel: 1 MiB a link (what stays in a core's L2) up to
// 8 ranks, 128 KiB a link at 64. Beyond that slots stay at 32 KiB, since most of so many ranks are on other hosts.
inline Geometry choose_geometry(Rank nranks, const Config& config) {
  const uint64_t by_ranks =
      std::clamp<uint64_t>((uint64_t{2} << 20) / std::bit_ceil(uint32_t{nranks}), 32 << 10, 256 << 10);
  const uint64_t wanted = std::clamp<uint64_t>(config.tile_bytes.value_or(by_ranks), kPageBytes, kMaxSlotBytes);
  return {.slot_bytes = (wanted + kPageBytes - 1) / kPageBytes * kPageBytes,
          .depth = nranks <= 64 ? 4u : 2u,
          .nranks = nranks};
}

}  // namespace tutti::shm
