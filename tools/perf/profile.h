// Profile: n contributions to one element whose reduction is exact in any order; see pattern.h.
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "perf/element.h"

namespace tutti::perf {

struct Profile {
  std::vector<uint64_t> contributions;  // as bits of the type; for mulsum: after the multiplication
  std::vector<uint64_t> halves;         // mulsum only: what a rank with scalar 2 puts in
  uint64_t result = 0;
};

// Requires an operation and nranks >= 1.
Profile make_profile(tuttiDataType_t type, Operation operation, uint32_t nranks, Rng& rng);

}  // namespace tutti::perf
