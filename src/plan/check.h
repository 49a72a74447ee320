// Checks of one plan by itself, without running it: every field within its range. What passes can be stepped safely.
#pragma once

#include "base/status.h"
#include "plan/contract.h"
#include "plan/machine.h"
#include "plan/plan.h"

namespace tutti {

// "rank 3, lane 0, move 2, iteration 5".
std::string describe(Rank rank, LaneId lane, const Cursor& cursor);

// `contract` is that of the shape. O(moves + peers log peers).
Status check_plan(const Plan& plan, const Contract& contract, Rank self);

// The chunks of one step lie within their buffers, and the rank may touch those. O(1).
Status check_step(const Plan& plan, const Contract& contract, Rank self, LaneId lane, const Cursor& cursor,
                  const Step& step);

}  // namespace tutti
