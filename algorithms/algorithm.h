// Algorithm: a pure function from a shape to the plan of each rank. See README.md here for a drawing of each.
#pragma once

#include <span>
#include <string_view>

#include "base/status.h"
#include "plan/plan.h"
#include "plan/rank_order.h"
#include "plan/work.h"

namespace tutti {

struct Algorithm {
  std::string_view name;  // "ring", "tree", ...: what TUTTI_ALGO names
  Collective collective;
  // Whether plan() may be called. A predicate: plan() never asserts on a shape that it accepted.
  bool (*applies)(const Shape& shape);
  // Rank `self`'s plan. Pure: no I/O, environment, clock or globals. Ranks are virtual: wiring maps them to real ones.
  Plan (*plan)(const Shape& shape, Rank self);
  // What the plans cost, in closed form; the same for every root. O(log n) at most, no allocation.
  CostTerms (*terms)(const Shape& shape);
  // Is another algorithm over again where Shape::ranks_per_node is 1, and then chosen only where TUTTI_ALGO names it.
  bool by_node = false;
  // Each copy is a ring (or a chain) of one lane on every rank: copies may go through the ranks in orders of their own.
  bool in_rings = false;
};

// The plan of rank `self` where ranks stand in `orders`, at least one: the first, and where the algorithm is in_rings
// its copies take them by turns. For collectives to which RankOrder does not apply, the plan as it is. Pure; the same
// orders on all ranks.
Plan plan_in_orders(const Algorithm& algorithm, const Shape& shape, Rank self, std::span<const RankOrder> orders);

// The one table, in registry.cc.
std::span<const Algorithm> all_algorithms();
// Null when there is none of that name for that collective.
const Algorithm* find_algorithm(std::string_view name, Collective collective);

}  // namespace tutti
