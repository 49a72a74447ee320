// What the plan tests share.
#pragma once

#include <vector>

#include "algorithms/algorithm.h"
#include "plan/verify.h"

namespace tutti {

// The plans of all ranks; for send and recv the pair that verify() wants.
inline std::vector<Plan> plans_for(const Algorithm& algorithm, const Shape& shape) {
  if (algorithm.collective != Collective::send && algorithm.collective != Collective::recv)
    return plans_of(shape, algorithm.plan);
  const Algorithm* send = find_algorithm(algorithm.name, Collective::send);
  const Algorithm* recv = find_algorithm(algorithm.name, Collective::recv);
  return {send->plan({Collective::send, Rank{2}, Rank{1}, shape.lanes}, Rank{0}),
          recv->plan({Collective::recv, Rank{2}, Rank{0}, shape.lanes}, Rank{1})};
}

}  // namespace tutti
