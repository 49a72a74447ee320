// RankOrder: at which place of a plan each rank stands. Plans number ranks by place; wiring puts the ranks there. Ranks
// of a node stand next to each other, so that rings and trees leave a node as seldom as can be, however ranks were
// started; within a node they may stand as its links suit (topo/order.h).
//
// Values; the same on all ranks, because it is made of what all were told.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace tutti {

class RankOrder {
 public:
  RankOrder() = default;
  // `hosts`: of each rank. Hosts follow one another by their lowest rank, the ranks of a host by `positions` (of each
  // rank; empty: all alike), then by their number.
  explicit RankOrder(const std::vector<std::string_view>& hosts, const std::vector<uint32_t>& positions = {});

  // Whether places are the ranks' own numbers.
  bool trivial() const { return rank_at_.empty(); }
  Rank place_of(Rank rank) const { return trivial() ? rank : place_of_[rank]; }
  Rank rank_at(Rank place) const { return trivial() ? place : rank_at_[place]; }
  // Ranks of each node where all have as many; 1 where they have not, or there is one node only.
  uint32_t ranks_per_node() const { return ranks_per_node_; }
  bool operator==(const RankOrder&) const = default;

  // Whether a collective's plans may be put in another order: not where a rank's number says which block is its own.
  static bool applies_to(Collective collective);
  // Places become ranks.
  void put(Plan& plan) const;

 private:
  std::vector<Rank> rank_at_, place_of_;  // empty: each at its own
  uint32_t ranks_per_node_ = 1;
};

}  // namespace tutti
