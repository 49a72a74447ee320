// Verify: proves the plans of a shape right, for every size, type, operation, FIFO depth and timing.
//
// Lanes block only on FIFOs with one producer and one consumer, so what they compute does not depend on timing (Kahn
// 1974) and one symbolic run at FIFO depth 1 speaks for all. Proved, per shape:
//   result      every rank's out is what the collective asks, each contribution in it once and its completion (the
//               division of avg) done once, by 64-bit fingerprints; a wrong plan passes with a chance of about 2^-64
//   agreement   all_reduce: the fold trees of all ranks are equal, so are their bits in floating point
//   progress    no deadlock at depth 1, nothing left in a FIFO
//   memory      no index out of range, no buffer that the rank does not have, no undefined memory read, no store that
//               nobody reads, no two lanes that touch the same memory without an order
//   shortcuts   messages that are lent, or written straight to where they go, are ordered all the same
//   messages    both ends agree on spans and sizes, for all block sizes of V-variants; one lane at each end of a FIFO
// An error is tuttiInvalidUsage and names rank, lane, move and iteration.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace tutti {

struct VerifyOptions {
  bool in_place = false;
  // Ranks up to which races between lanes are looked for: vector clocks cost O(steps x lanes of all ranks).
  uint32_t race_ranks_max = 64;
};

// plans[r] is rank r's. For send and recv: plans[0] is the plan of send to rank 1, plans[1] that of recv from rank 0.
// O(steps + operands), about 100 ns each; pure.
Status verify(const Shape& shape, std::span<const Plan> plans, const VerifyOptions& options);

// Not in place and, where the collective allows it, in place.
Status verify(const Shape& shape, std::span<const Plan> plans);

// The plans of all ranks of a shape: plan(shape, r) for each r.
std::vector<Plan> plans_of(const Shape& shape, Plan (*plan)(const Shape&, Rank));

}  // namespace tutti
