#include <algorithm>

#include "algorithms/algorithm.h"

namespace tutti {

Plan plan_in_orders(const Algorithm& algorithm, const Shape& shape, Rank self, std::span<const RankOrder> orders) {
  if (!RankOrder::applies_to(shape.collective)) return algorithm.plan(shape, self);
  const auto plan_in = [&](const RankOrder& order) {
    Shape places = shape;
    places.root = order.place_of(shape.root);
    Plan plan = algorithm.plan(places, order.place_of(self));
    order.put(plan);
    return plan;
  };
  Plan plan = plan_in(orders[0]);
  const size_t copies = plan.lanes.size();
  for (size_t i = 1; algorithm.in_rings && i < std::min(orders.size(), copies); ++i) {
    const Plan other = plan_in(orders[i]);
    for (size_t copy = i; copy < copies; copy += orders.size()) plan.lanes[copy] = other.lanes[copy];
  }
  return plan;
}

}  // namespace tutti
