// Races: two lanes of a rank that touch the same memory, one of them storing, must be ordered by messages.
#pragma once

#include <span>

#include "base/status.h"
#include "plan/contract.h"

namespace tutti {

// Runs the plans over vector clocks (Mattern 1989). Plans that passed every other check. Memory O(sending steps x lanes
// of all ranks).
Status check_races(std::span<const Plan> plans, const Contract& contract);

}  // namespace tutti
