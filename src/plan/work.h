// Work: what lanes do, counted; and the closed form of an algorithm's cost that is made of such counts.
//
// A plan knows no sizes, and neither does this: bytes are counted in tiles of a chunk. Prices bring seconds in, the
// tuner brings bytes, tile and cores (tune/predict.h). tests/plan/terms_test.cc holds every algorithm's closed form
// against its plans run over times (plan/cost.h).
//
// Values only. Everything here is O(1).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace tutti {

struct Work {
  double steps = 0;     // iterations of moves
  double waits = 0;     // steps whose messages come only after the lane is free: hand-overs from one rank to another
  double awaited = 0;   // tiles in one message of each of these
  double messages = 0;  // sent or received: each costs both its ends
  double sent = 0;      // tiles, and so on: a message of a span counts as many as it has chunks
  double received = 0;
  double folded = 0;  // operands beyond the first of each step
  double stored = 0;  // in out or scratch, sent or not
  bool operator==(const Work&) const = default;
};

constexpr Work operator+(const Work& a, const Work& b) {
  return {a.steps + b.steps, a.waits + b.waits,       a.awaited + b.awaited, a.messages + b.messages,
          a.sent + b.sent,   a.received + b.received, a.folded + b.folded,   a.stored + b.stored};
}
constexpr Work operator*(double times, const Work& w) {
  return {times * w.steps, times * w.waits,    times * w.awaited, times * w.messages,
          times * w.sent,  times * w.received, times * w.folded,  times * w.stored};
}

// What each costs.
struct Prices {
  double step_s = 0;
  double wait_s = 0;  // from a message's departure to its arrival, and what its bytes add
  double wait_s_per_byte = 0;
  double message_s = 0;  // at each end
  double send_s_per_byte = 0;
  double receive_s_per_byte = 0;
  double fold_s_per_byte = 0;
  double store_s_per_byte = 0;
};

// `bytes`: of a tile.
constexpr double seconds(const Work& w, const Prices& p, double bytes) {
  return w.steps * p.step_s + w.waits * p.wait_s + w.messages * p.message_s +
         bytes * (w.awaited * p.wait_s_per_byte + w.sent * p.send_s_per_byte + w.received * p.receive_s_per_byte +
                  w.folded * p.fold_s_per_byte + w.stored * p.store_s_per_byte);
}

// The closed form of the cost of a shape's plans, where a message takes its lane's time at both ends:
//
//   T tiles of a lane take   seconds(first) + (T - 1) max over stages(seconds(stage))
//   a rank is busy for       T * copies * seconds(busiest)      at most; its lanes share one thread
//   all ranks together for   T * copies * seconds(all)
//
// The first is the way of a tile from the first load to the last store. A stage is a lane that each tile passes: where
// all lanes go in step there is one, as long as the whole way; chains and trees have several short ones.
struct CostTerms {
  static constexpr size_t kMostStages = 3;
  uint32_t chunks = 1;  // Plan::chunks
  uint32_t span = 1;    // the most chunks in a message: they share its bytes
  uint32_t copies = 1;  // of the pattern, side by side: Shape::lanes, or 1 where the algorithm has only one
  uint32_t lanes = 1;   // of a copy, at most: they take turns on a rank's thread
  uint32_t peers = 0;   // the most peers that a rank has, in one direction
  Work first;
  std::array<Work, kMostStages> stages{};  // those beyond the last are all zero
  Work busiest;                            // rank, per tile and copy
  Work all;                                // ranks, per tile and copy
  // What each rank does beside all these by links within its node, where an algorithm tells them apart: on the way of a
  // tile, in each stage, and per tile and copy.
  Work near;
};

constexpr double slowest_stage(const CostTerms& terms, const Prices& prices, double bytes) {
  double slowest = 0;
  for (const Work& stage : terms.stages) slowest = std::max(slowest, seconds(stage, prices, bytes));
  return slowest;
}

}  // namespace tutti
