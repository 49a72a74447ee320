// A second opinion on plans: runs them on real integers, from the words of docs/plan-ir.md, sharing no code with the
// stepper, the verifier or the engine. Slow and simple. The mutation test asks it which mutants change the outcome.
#pragma once

#include <span>
#include <string>

#include "plan/plan.h"

namespace tutti {

struct ReferenceRun {
  bool in_place = false;
  uint32_t fifo_depth = 1;  // messages that wait in a FIFO
  uint64_t seed = 0;        // of the order in which lanes get their turns; 0: round robin
};

// Empty when every rank ends with what the collective asks, the inputs unharmed and (all_reduce) equal results of an
// operation that is neither commutative nor associative. Else what went wrong.
std::string run_reference(const Shape& shape, std::span<const Plan> plans, const ReferenceRun& run);

}  // namespace tutti
