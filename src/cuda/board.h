// Board: what the threads of a block share while they run a lane, and how the next step gets on it.
//
// Plain data in shared memory. `steps` are two: while all threads move the data of one, one thread decodes the next, so
// that decoding (some 100 ns on a GPU) is hidden behind the data.
#pragma once

#include "cuda/port.h"
#include "cuda/program.h"

namespace tutti::dev {

// A step (plan/machine.h) without constructors, with its tile and its message's size.
struct BoardStep {
  uint64_t tile;
  uint64_t bytes;   // of the message
  uint64_t number;  // counts the lane's steps, from 1
  uint32_t recv_first, recv_count, send_first, send_count;
  uint32_t local_pos, span;
  uint32_t load, store;
  Buffer load_from, store_to;
  bool complete;
  bool end;  // there are no more steps

  TUTTI_DEV bool loads() const { return load_from != Buffer::none; }
  TUTTI_DEV bool stores() const { return store_to != Buffer::none; }
  TUTTI_DEV uint32_t operand_count() const { return recv_count + (loads() ? 1 : 0); }
};

struct Board {
  BoardStep steps[2];
  // The cursor: of the step after the last decoded one.
  uint64_t tile;
  uint32_t move, iteration;
  uint64_t decoded;  // steps
  // Of the step under way: where received operands and room to send lie.
  const std::byte* operands[kMostPeers];
  std::byte* rooms[kMostPeers];
  // By peer slot: messages so far.
  uint64_t sent[kMostPeers];
  uint64_t received[kMostPeers];
};

// A chunk's part in a step, in bytes from where its buffers begin.
struct Piece {
  uint64_t count;  // elements
  uint64_t load_bytes, store_bytes;
};

TUTTI_DEV Piece piece_of(const Launch& a, const BoardStep& s, uint32_t k) {
  const auto number = [&](Buffer buffer, uint32_t first) {
    return wrap(first + k, buffer == Buffer::scratch ? a.scratch_chunks : a.chunks);
  };
  const bool by_load = s.loads() || !s.stores();
  const Extent sized = tile_extent(a, by_load ? s.load_from : s.store_to,
                                   number(by_load ? s.load_from : s.store_to, by_load ? s.load : s.store), s.tile);
  Piece piece{sized.count, 0, 0};
  if (sized.count == 0) return piece;
  if (s.loads()) piece.load_bytes = sized.offset * a.element_bytes;
  if (s.stores())
    piece.store_bytes = tile_extent(a, s.store_to, number(s.store_to, s.store), s.tile).offset * a.element_bytes;
  return piece;
}

// Puts the lane's next step on the board: the next that has something to send, as empty tiles after the first are left
// out. For one thread.
TUTTI_DEV void decode_next(const Launch& a, const DeviceLane& lane, Board& b, BoardStep& s) {
  for (;;) {
    if (b.move >= lane.move_count) {
      b.move = 0;
      b.iteration = 0;
      if (++b.tile >= a.tiles) {
        s.end = true;
        return;
      }
    }
    const Move& m = lane.moves[b.move];
    const Step step = decode(m, b.iteration, lane.peer_count, a.chunks, a.scratch_chunks);
    s.tile = b.tile;
    s.recv_first = step.recv_first;
    s.recv_count = step.recv_count;
    s.send_first = step.send_first;
    s.send_count = step.send_count;
    s.local_pos = step.local_pos;
    s.span = step.span;
    s.load = step.load;
    s.store = step.store;
    s.load_from = step.load_from;
    s.store_to = step.store_to;
    s.complete = step.complete;
    s.end = false;
    if (++b.iteration >= m.repeat) {
      ++b.move;
      b.iteration = 0;
    }
    uint64_t elements = 0;
    for (uint32_t k = 0; k < s.span; ++k) elements += piece_of(a, s, k).count;
    s.bytes = elements * a.element_bytes;
    if (s.tile > 0 && elements == 0) continue;
    s.number = ++b.decoded;
    return;
  }
}

// The result of the step is more than its one operand.
TUTTI_DEV bool transforms(const Launch& a, const BoardStep& s) {
  return (a.scales && s.load_from == Buffer::in) || (a.divides && s.complete);
}
TUTTI_DEV bool copies(const Launch& a, const BoardStep& s) { return s.operand_count() == 1 && !transforms(a, s); }

}  // namespace tutti::dev
