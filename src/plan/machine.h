// The stepper: decodes moves one iteration at a time and hands them to a StepMachine.
//
// The same stepper drives the host engine (bytes), the verifier (fingerprints), the cost model (times) and the dump
// (strings); each is a StepMachine. It never blocks: a machine that cannot perform a step now says so and is asked
// again.
#pragma once

#include <concepts>
#include <optional>

#include "plan/plan.h"

namespace tutti {

// One iteration of a move, decoded. load and store are chunk ids of the first of `span` chunks.
struct Step {
  PeerSlot recv_first, send_first;
  uint16_t recv_count = 0, send_count = 0;
  uint16_t local_pos = 0, span = 1;
  Buffer load_from = Buffer::none, store_to = Buffer::none;
  ChunkId load, store;
  bool complete = false;

  // The chunk (and the buffer whose grid it lies in; none: the wide one) that gives the message its size.
  constexpr bool sized_by_load() const { return load_from != Buffer::none || store_to == Buffer::none; }
};

// Where a lane stands. Value-initialised: at the start.
struct Cursor {
  uint32_t move = 0;
  uint32_t iteration = 0;
  bool operator==(const Cursor&) const = default;
};

inline bool at_end(const Lane& lane, const Cursor& cursor) { return cursor.move >= lane.moves.size(); }

// value mod modulus, for value < 2 * modulus: a division takes longer than the rest of a step's decoding.
constexpr uint32_t wrap(uint32_t value, uint32_t modulus) { return value < modulus ? value : value - modulus; }

// The k-th peer slot from `first` on, mod the number of peers. k <= the number of peers.
inline PeerSlot slot_after(const Lane& lane, PeerSlot first, uint32_t k) {
  return PeerSlot{static_cast<uint16_t>(wrap(first + k, static_cast<uint32_t>(lane.peers.size())))};
}

constexpr uint32_t walk(const ChunkWalk& w, uint32_t iteration, uint32_t chunks) {
  if (iteration == 0) return static_cast<uint32_t>(w.first);
  const int64_t m = chunks;
  const int64_t c = (w.first + static_cast<int64_t>(iteration) * w.step) % m;
  return static_cast<uint32_t>(c < 0 ? c + m : c);
}

// Iteration `iteration` of `m`, in a lane of `peers` peer slots. O(1). In place, field by field: a step that is made
// elsewhere and copied is read before its narrow stores have reached the cache, which costs more than the decoding.
constexpr void decode_into(Step& step, const Move& m, uint32_t iteration, uint32_t peers, uint32_t chunks,
                           uint32_t scratch_chunks) {
  const int64_t npeers = peers == 0 ? 1 : peers;
  const int64_t shift = static_cast<int64_t>(iteration) * m.peer_step;
  const auto slot = [&](uint16_t first) {
    if (shift == 0) return PeerSlot{first};
    const int64_t s = (first + shift) % npeers;
    return PeerSlot{static_cast<uint16_t>(s < 0 ? s + npeers : s)};
  };
  step.recv_first = slot(m.recv_first);
  step.send_first = slot(m.send_first);
  step.recv_count = m.recv_count;
  step.send_count = m.send_count;
  step.local_pos = m.local_pos;
  step.span = m.span;
  step.load_from = m.load_from;
  step.store_to = m.store_to;
  // Scratch chunks are walked mod their own number.
  const auto modulus = [&](Buffer b) { return b == Buffer::scratch ? scratch_chunks : chunks; };
  step.load = ChunkId{walk(m.load, iteration, modulus(m.load_from))};
  step.store = ChunkId{walk(m.store, iteration, modulus(m.store_to))};
  step.complete = m.complete != 0;
}

// Constant expressions may be called in kernels too: src/cuda decodes by this function.
constexpr Step decode(const Move& m, uint32_t iteration, uint32_t peers, uint32_t chunks, uint32_t scratch_chunks) {
  Step step;
  decode_into(step, m, iteration, peers, chunks, scratch_chunks);
  return step;
}

// Requires !at_end.
inline Step decode(const Plan& plan, const Lane& lane, const Cursor& cursor) {
  return decode(lane.moves[cursor.move], cursor.iteration, static_cast<uint32_t>(lane.peers.size()), plan.chunks,
                plan.scratch_chunks);
}

inline void advance(const Lane& lane, Cursor& cursor) {
  if (++cursor.iteration >= lane.moves[cursor.move].repeat) {
    ++cursor.move;
    cursor.iteration = 0;
  }
}

// try_step either performs the whole step and returns true, or returns false having changed nothing that another try
// would repeat.
template <class M>
concept StepMachine = requires(M m, LaneId lane_id, const Lane& lane, const Step& step) {
  { m.try_step(lane_id, lane, step) } -> std::same_as<bool>;
};

enum class Progress : uint8_t { blocked, moved, finished };

// Performs steps of one lane until it blocks or ends. `moved` means that at least one step was done and it then blocked.
// `step` is the one at the cursor, if it has been decoded: a machine that is asked often keeps it between calls.
template <StepMachine M>
Progress run_lane(const Plan& plan, LaneId lane_id, Cursor& cursor, std::optional<Step>& step, M& machine) {
  const Lane& lane = plan.lanes[lane_id];
  bool moved = false;
  while (!at_end(lane, cursor)) {
    if (!step)
      decode_into(step.emplace(), lane.moves[cursor.move], cursor.iteration, static_cast<uint32_t>(lane.peers.size()),
                  plan.chunks, plan.scratch_chunks);
    if (!machine.try_step(lane_id, lane, *step)) return moved ? Progress::moved : Progress::blocked;
    step.reset();
    advance(lane, cursor);
    moved = true;
  }
  return Progress::finished;
}

template <StepMachine M>
Progress run_lane(const Plan& plan, LaneId lane_id, Cursor& cursor, M& machine) {
  std::optional<Step> step;
  return run_lane(plan, lane_id, cursor, step, machine);
}

}  // namespace tutti
