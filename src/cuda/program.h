// Program: a plan as the move kernel sees it. Plain data, shared by the host, kernels of this process, and, what is
// called Fifo..., those of other ranks.
//
// A FIFO is a ring of kDepth slots in the receiver's memory with a counter of what was posted beside them; the counter of
// what was consumed lies in the sender's memory, so that both ends poll their own. Each slot has a note that says whose
// message it holds. Proxied FIFOs lie in pinned host memory, where the proxy is the other end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/layout.h"
#include "plan/machine.h"
#include "plan/plan.h"

namespace tutti::dev {

constexpr uint32_t kDepth = 4;         // messages under way in a FIFO; the contract asks for two (transports/transport.h)
constexpr uint32_t kMostPeers = 128;   // of a lane: their counters are in shared memory
constexpr uint32_t kMostLanes = 128;   // blocks of a kernel

enum class Protocol : uint8_t { simple, ll };

// What stands beside a slot: the stamp and size of its message; or, granted by a receiver, of the one that it expects.
struct alignas(16) SlotNote {
  uint64_t tag;
  uint32_t sequence;
  uint32_t bytes;
};

// One FIFO end as a lane uses it, addresses valid in this process. Where `slots` is null the plan does not use it.
struct SendFifo {
  std::byte* slots = nullptr;
  std::byte* line_slots = nullptr;  // of protocol ll, never written by another
  SlotNote* notes = nullptr;
  uint64_t* posted = nullptr;          // written
  const uint64_t* consumed = nullptr;  // polled
  uint64_t* count = nullptr;           // in own memory: messages posted so far, kept between kernels
  uint64_t slot_bytes = 0;
};
struct RecvFifo {
  const std::byte* slots = nullptr;
  const std::byte* line_slots = nullptr;
  const SlotNote* notes = nullptr;
  const uint64_t* posted = nullptr;  // polled
  uint64_t* consumed = nullptr;      // written
  uint64_t* count = nullptr;
  uint64_t slot_bytes = 0;
  // Of a proxied FIFO: what is expected next, which the proxy must know to ask a link for it.
  SlotNote* grants = nullptr;
  uint64_t* granted = nullptr;
};
struct DevicePeer {
  SendFifo send;
  RecvFifo recv;
};

// Payload that fits into a slot of protocol ll: half of it is flags, and two lines are the note.
constexpr uint64_t kLineSlotBytes = 16 << 10;
constexpr uint64_t kNoteLines = 2;
constexpr uint64_t kLinePayloadBytes = kLineSlotBytes / 2 - kNoteLines * 8;

struct DeviceLane {
  const Move* moves = nullptr;
  const DevicePeer* peers = nullptr;
  uint32_t move_count = 0;
  uint32_t peer_count = 0;
};

// Layout (engine/layout.h) with its one division done beforehand where blocks are equal.
struct DeviceLayout {
  uint64_t block_count = 0;
  uint64_t stride = 0;                // of chunks, where blocks are equal
  const uint64_t* counts = nullptr;   // else: elements of block b
  const uint64_t* offsets = nullptr;  // and where it starts
  uint32_t chunks_per_block = 1;
};

// What kernels and the host tell each other while a kernel runs; host memory that both reach. Relaxed accesses, but the
// fault's.
struct alignas(64) LaneReport {
  uint64_t steps;    // whose data has been moved: grows while the lane gets anywhere
  uint64_t waiting;  // the last long wait: the step's number << 32, kWaitsToSend, the peer slot
};
constexpr uint64_t kWaitsToSend = uint64_t{1} << 31;
enum class FaultCode : uint32_t { none, mismatch, timeout };
struct Fault {
  uint64_t code;  // stored with release, last: the rest is then valid. Only the first of a launch is kept
  uint32_t lane;
  uint32_t peer_slot;
  SlotNote theirs;
  uint32_t expected_bytes;
};
struct Control {
  alignas(64) uint64_t abort;  // the host asks all lanes to end
  alignas(64) uint64_t stopped;  // a lane has failed: so do the others
  alignas(64) Fault fault;
  LaneReport lanes[kMostLanes];
};

// The argument of the move kernel, by value: well below the 4 KiB that kernels may have.
struct Launch {
  const DeviceLane* lanes = nullptr;
  Control* control = nullptr;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::byte* scratch = nullptr;
  DeviceLayout in_layout, out_layout;
  uint64_t tile_count = 1;  // elements of a chunk in one message
  uint64_t tiles = 1;
  uint64_t scalar_bits = 0;  // premul_sum
  uint64_t tag = 0;          // the stamp
  uint64_t timeout_ns = 0;
  uint32_t sequence = 0;
  uint32_t chunks = 1, scratch_chunks = 0;
  uint32_t nranks = 1;
  uint32_t element_bytes = 1;
  bool wide_is_out = false;
  bool reduces = false, scales = false, divides = false;
  Protocol protocol = Protocol::simple;
};

constexpr Extent chunk_of(const DeviceLayout& layout, uint32_t chunk, uint32_t element_bytes) {
  const uint32_t block = layout.chunks_per_block == 1 ? chunk : chunk / layout.chunks_per_block;
  const uint32_t place = chunk - block * layout.chunks_per_block;
  uint64_t count = layout.block_count, offset = block * layout.block_count, stride = layout.stride;
  if (layout.counts != nullptr) {
    count = layout.counts[block];
    offset = layout.offsets[block];
    stride = chunk_stride(count, layout.chunks_per_block, element_bytes);
  }
  const uint64_t begin = place * stride < count ? place * stride : count;
  return {offset + begin, stride < count - begin ? stride : count - begin};
}

// Where chunk `chunk` of `buffer` has its tile number `tile`: what ByteMachine::extent says.
constexpr Extent tile_extent(const Launch& a, Buffer buffer, uint32_t chunk, uint64_t tile) {
  const bool own = buffer == Buffer::in || buffer == Buffer::out;
  // Scratch and what is only passed on have the size of the wide buffer's chunk.
  const bool out = own ? buffer == Buffer::out : a.wide_is_out;
  const Extent whole = chunk_of(out ? a.out_layout : a.in_layout, own ? chunk : chunk % a.chunks, a.element_bytes);
  const uint64_t skipped = tile * a.tile_count < whole.count ? tile * a.tile_count : whole.count;
  const uint64_t count = a.tile_count < whole.count - skipped ? a.tile_count : whole.count - skipped;
  return {own ? whole.offset + skipped : chunk * a.tile_count, count};
}

}  // namespace tutti::dev
