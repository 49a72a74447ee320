// Races: two lanes that touch the same memory, one of them storing, must be ordered by messages.
#pragma once

#include <span>

#include "base/status.h"
#include "plan/contract.h"

namespace tutti {

// Who touches a rank's memory.
enum class Touching : uint8_t {
  own_lanes,  // its own lanes, each in its steps
  // What is only loaded from `in` and sent is read by the lane that gets the message; what is only stored in `out` is
  // written by the lane that sends it (docs/plan-ir.md, Shortcuts). Ranks that may not take them are left out.
  shortcuts,
};

// Runs the plans over vector clocks (Mattern 1989). Plans that passed every other check. Memory O(sending steps x lanes
// of all ranks).
Status check_races(std::span<const Plan> plans, const Contract& contract, Touching touching);

}  // namespace tutti
