// The move kernel: steps the lanes of a plan on device memory, one block a lane.
//
//   while there are steps:
//     each thread waits for one operand or one room       polls of own memory, one peer a thread
//     barrier
//     one thread decodes the next step; all threads move the data of this one
//     barrier
//     each thread posts one message or returns one credit   store_release
//
// All blocks of all ranks that a plan names must run at once: whoever launches counts them (device.h). Every wait is
// bounded by the launch's deadline and by two words: `abort`, which the host sets, and `stopped`, which the first lane
// that fails sets. A kernel that ended so has left FIFOs in disorder; its communicator is of no more use.
//
// `Order` says how the protocol keeps its order. Tests run the kernel with the orders that leave something out.
#pragma once

#include "cuda/move_data.h"
#include "cuda/move_lines.h"
#include "cuda/waiting.h"

namespace tutti::dev {

// The order that the protocol needs.
struct Sound {
  TUTTI_DEV static void post(uint64_t* counter, uint64_t value) { store_release(counter, value); }
  // All threads have moved their part before one of them says so.
  static constexpr bool kMovesBeforePosting = true;
};

// Each peer slot belongs to one thread, which does all its counting and polling: receiving ones to the first threads,
// sending ones to the last. Calls visit(slot, place among those of the step) for those of the calling thread.
template <class Visit>
TUTTI_DEV void own_slots(const DeviceLane& lane, uint32_t thread, uint32_t first, uint32_t count, Visit visit) {
  for (uint32_t slot = thread; slot < lane.peer_count; slot += static_cast<uint32_t>(nthreads())) {
    const uint32_t place = slot >= first ? slot - first : slot + lane.peer_count - first;
    if (place < count) visit(slot, place);
  }
}
TUTTI_DEV uint32_t receiving_thread() { return static_cast<uint32_t>(tid()); }
TUTTI_DEV uint32_t sending_thread() { return static_cast<uint32_t>(nthreads() - 1 - tid()); }

// One thread, one received message: waits until it is there and is the expected one.
TUTTI_DEV bool await_operand(const Launch& a, const DeviceLane& lane, Board& b, const BoardStep& s, uint32_t slot,
                             uint32_t i) {
  const RecvFifo& fifo = lane.peers[slot].recv;
  const uint64_t number = b.received[slot];
  const uint64_t place = number % kDepth;
  if (a.protocol == Protocol::ll) {
    b.operands[i] = fifo.line_slots + place * kLineSlotBytes;  // whoever reads a line waits for it
    return true;
  }
  if (fifo.granted != nullptr) {
    fifo.grants[place] = SlotNote{a.tag, a.sequence, static_cast<uint32_t>(s.bytes)};
    store_release(fifo.granted, number + 1);
  }
  if (!wait_for(Wait{&a, &s, slot, false}, fifo.posted, number + 1)) return false;
  const SlotNote note = fifo.notes[place];
  if (note.tag != a.tag || note.sequence != a.sequence || note.bytes != s.bytes) {
    tell_fault(a, FaultCode::mismatch, slot, note, s.bytes);
    return false;
  }
  b.operands[i] = fifo.slots + place * fifo.slot_bytes;
  return true;
}

// One thread, one message to send: waits for room.
TUTTI_DEV bool await_room(const Launch& a, const DeviceLane& lane, Board& b, const BoardStep& s, uint32_t slot,
                          uint32_t j) {
  const SendFifo& fifo = lane.peers[slot].send;
  const uint64_t number = b.sent[slot];
  if (number >= kDepth && !wait_for(Wait{&a, &s, slot, true}, fifo.consumed, number + 1 - kDepth)) return false;
  const uint64_t place = number % kDepth;
  b.rooms[j] =
      a.protocol == Protocol::ll ? fifo.line_slots + place * kLineSlotBytes : fifo.slots + place * fifo.slot_bytes;
  return true;
}

template <class Order>
TUTTI_DEV void publish(const Launch& a, const DeviceLane& lane, Board& b, const BoardStep& s) {
  own_slots(lane, receiving_thread(), s.recv_first, s.recv_count,
            [&](uint32_t slot, uint32_t) { Order::post(lane.peers[slot].recv.consumed, ++b.received[slot]); });
  own_slots(lane, sending_thread(), s.send_first, s.send_count, [&](uint32_t slot, uint32_t) {
    const SendFifo& fifo = lane.peers[slot].send;
    const uint64_t number = b.sent[slot]++;
    // Lines tell of themselves; but the next message may be one of protocol simple, whose receiver waits for its number.
    if (a.protocol == Protocol::ll) return store_relaxed(fifo.posted, number + 1);
    store_remote(fifo.notes + number % kDepth, SlotNote{a.tag, a.sequence, static_cast<uint32_t>(s.bytes)});
    Order::post(fifo.posted, number + 1);
  });
}

TUTTI_DEV void begin_lane(const Launch& a, const DeviceLane& lane, Board& b) {
  const auto threads = static_cast<uint32_t>(nthreads());
  for (uint32_t i = receiving_thread(); i < lane.peer_count; i += threads)
    b.received[i] = lane.peers[i].recv.slots != nullptr ? *lane.peers[i].recv.count : 0;
  for (uint32_t i = sending_thread(); i < lane.peer_count; i += threads)
    b.sent[i] = lane.peers[i].send.slots != nullptr ? *lane.peers[i].send.count : 0;
  if (tid() != 0) return;
  b.tile = 0;
  b.move = 0;
  b.iteration = 0;
  b.decoded = 0;
  decode_next(a, lane, b, b.steps[0]);
}

TUTTI_DEV void end_lane(const DeviceLane& lane, const Board& b) {
  const auto threads = static_cast<uint32_t>(nthreads());
  for (uint32_t i = receiving_thread(); i < lane.peer_count; i += threads)
    if (lane.peers[i].recv.slots != nullptr) *lane.peers[i].recv.count = b.received[i];
  for (uint32_t i = sending_thread(); i < lane.peer_count; i += threads)
    if (lane.peers[i].send.slots != nullptr) *lane.peers[i].send.count = b.sent[i];
}

template <class F, class Order>
TUTTI_DEV void run_lane(const Launch& a) {
  TUTTI_SHARED Board b;
  const DeviceLane& lane = a.lanes[bid()];
  begin_lane(a, lane, b);
  sync_block();
  for (uint32_t parity = 0;; parity ^= 1) {
    const BoardStep& s = b.steps[parity];
    if (s.end) break;
    bool failed = false;
    own_slots(lane, receiving_thread(), s.recv_first, s.recv_count,
              [&](uint32_t slot, uint32_t i) { failed |= !await_operand(a, lane, b, s, slot, i); });
    own_slots(lane, sending_thread(), s.send_first, s.send_count,
              [&](uint32_t slot, uint32_t j) { failed |= !await_room(a, lane, b, s, slot, j); });
    if (sync_block_any(failed)) break;
    if (tid() == nthreads() - 1) decode_next(a, lane, b, b.steps[parity ^ 1]);
    if (a.protocol == Protocol::ll) {
      if (sync_block_any(!move_lines<F>(a, lane, b, s))) break;
    } else {
      move_data<F>(a, b, s);
      if constexpr (Order::kMovesBeforePosting) sync_block();
    }
    publish<Order>(a, lane, b, s);
    if (tid() == 0) store_relaxed(&a.control->lanes[bid()].steps, s.number);
    if constexpr (!Order::kMovesBeforePosting) sync_block();
  }
  end_lane(lane, b);
}

template <class F, class Order = Sound>
TUTTI_KERNEL void move_kernel(Launch a) {
  run_lane<F, Order>(a);
}

}  // namespace tutti::dev
