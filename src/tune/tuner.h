// Tuner: which algorithm, how many lanes, which tile for an operation.
//
// Chooses from what all ranks know alike (Facts, the agreed configuration, the operation), so all ranks choose alike
// without talking. TUTTI_ALGO, TUTTI_LANES and TUTTI_TILE force a choice.
#pragma once

#include "algorithms/algorithm.h"
#include "base/config.h"
#include "comm/wiring.h"

namespace tutti {

struct Choice {
  const Algorithm* algorithm = nullptr;
  uint32_t lanes = 1;
  uint64_t tile_bytes = 0;
  bool forced = false;  // TUTTI_ALGO left one algorithm
};

class Tuner {
 public:
  // Errors: TUTTI_ALGO names an algorithm that does not exist for the collective it names.
  static Result<Tuner> create(const Config& config, const Facts& facts);
  // bytes: of the wide buffer. Errors: TUTTI_ALGO leaves nothing for this collective and shape; lists what can be had.
  Result<Choice> choose(Collective collective, Rank root, uint64_t bytes) const;

 private:
  Tuner(const Config& config, const Facts& facts) : filter_(config.algo), lanes_(config.lanes), tile_bytes_(config.tile_bytes), facts_(facts) {}
  uint64_t tile_bytes() const;

  AlgorithmFilter filter_;
  std::optional<uint32_t> lanes_;
  std::optional<uint64_t> tile_bytes_;
  Facts facts_;
};

}  // namespace tutti
