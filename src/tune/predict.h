// Predict: seconds, from an algorithm's closed form and what is known of the machine.
#pragma once

#include <cstdint>

#include "plan/work.h"
#include "tune/facts.h"

namespace tutti {

// How an operation is cut.
struct Cut {
  double tiles = 1;       // per lane
  double tile_bytes = 0;  // of a chunk, on average over the tiles
};
// `bytes`: of the wide buffer; `message_bytes`: the most that travel as one message, >= 1.
Cut cut(const CostTerms& terms, uint64_t bytes, uint64_t message_bytes);

// What of a prediction decided it: the three are lower bounds, and the largest is the prediction.
struct Prediction {
  double way_s = 0;    // tile after tile along the longest way, if every lane had a core
  double rank_s = 0;   // the busiest rank's work, all its lanes on one core
  double cores_s = 0;  // where ranks outnumber cores: all work of the node, and its hand-overs, over its cores
  double seconds() const { return std::max({way_s, rank_s, cores_s}); }
};
// O(1), about 50 ns.
Prediction predict(const CostTerms& terms, const Facts& facts, uint64_t bytes, uint64_t message_bytes);

}  // namespace tutti
