#include "plan/verify.h"

#include <algorithm>

#include "plan/check.h"
#include "plan/contract.h"
#include "plan/fingerprint.h"
#include "plan/race.h"
#include "plan/value_machine.h"

namespace tutti {

Status verify(const Shape& shape, std::span<const Plan> plans, const VerifyOptions& options) {
  const Shape verified = as_verified(shape);
  if (plans.size() != verified.nranks)
    return invalid_argument("verify: {} plans were given for {} ranks", plans.size(),
                            static_cast<uint32_t>(verified.nranks));
  const uint32_t chunks = plans[0].chunks;
  const Contract contract(shape, chunks, options.in_place);
  if (const uint32_t wide = std::max(contract.in_chunks(), contract.out_chunks()); wide != chunks || chunks == 0)
    return fail(tuttiInvalidUsage, "rank 0: {} chunks do not divide evenly into the blocks of {} ranks", chunks,
                static_cast<uint32_t>(verified.nranks));
  for (uint32_t r = 0; r < plans.size(); ++r) TUTTI_TRY(check_plan(plans[r], contract, Rank{r}));

  FingerprintAlgebra algebra(plans, contract);
  Status status = ValueMachine<FingerprintAlgebra>(plans, contract, algebra).run();
  if (status.ok()) status = algebra.check_end(plans);
  // A race is the better explanation of whatever else went wrong.
  if (plans.size() > options.race_ranks_max) return status;
  if (algebra.lanes_share_memory()) TUTTI_TRY(check_races(plans, contract, Touching::own_lanes));
  TUTTI_TRY(status);
  return check_races(plans, contract, Touching::shortcuts).within("where messages are lent and granted");
}

Status verify(const Shape& shape, std::span<const Plan> plans) {
  TUTTI_TRY(verify(shape, plans, VerifyOptions{.in_place = false}));
  if (!Contract::allows_in_place(as_verified(shape).collective)) return {};
  return verify(shape, plans, VerifyOptions{.in_place = true}).within("in place");
}

std::vector<Plan> plans_of(const Shape& shape, Plan (*plan)(const Shape&, Rank)) {
  std::vector<Plan> plans;
  plans.reserve(shape.nranks);
  for (uint32_t r = 0; r < shape.nranks; ++r) plans.push_back(plan(shape, Rank{r}));
  return plans;
}

}  // namespace tutti
