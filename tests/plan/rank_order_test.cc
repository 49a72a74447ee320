// Ranks of a node stand next to each other in plans, however they were started, and the plans stay right.
#include <gtest/gtest.h>

#include "algorithms/algorithm.h"
#include "plan/rank_order.h"
#include "plan/verify.h"

namespace tutti {
namespace {

TEST(RankOrder, OfContiguousNodesIsTrivial) {
  const RankOrder order({"a", "a", "b", "b"});
  EXPECT_TRUE(order.trivial());
  EXPECT_EQ(order.ranks_per_node(), 2u);
  EXPECT_EQ(order.rank_at(Rank{3}), Rank{3});
  EXPECT_EQ(RankOrder({"a", "a"}).ranks_per_node(), 1u);  // one node
  EXPECT_EQ(RankOrder({"a", "a", "b"}).ranks_per_node(), 1u);
}

TEST(RankOrder, BringsTheRanksOfANodeTogether) {
  const RankOrder order({"b", "a", "b", "a"});
  ASSERT_FALSE(order.trivial());
  EXPECT_EQ(order.ranks_per_node(), 2u);
  const uint32_t expected[] = {0, 2, 1, 3};
  for (uint32_t place = 0; place < 4; ++place) {
    EXPECT_EQ(order.rank_at(Rank{place}), expected[place]);
    EXPECT_EQ(order.place_of(order.rank_at(Rank{place})), place);
  }
}

TEST(RankOrder, PutsRanksOfANodeInPositions) {
  const RankOrder order({"a", "a", "b", "a", "b"}, {2, 0, 1, 1, 0});
  const uint32_t expected[] = {1, 3, 0, 4, 2};
  for (uint32_t place = 0; place < 5; ++place) EXPECT_EQ(order.rank_at(Rank{place}), expected[place]);
}

// The verifier knows nothing of places: what it proves is what ranks run.
TEST(RankOrder, KeepsPlansRight) {
  const std::vector<std::string_view> hosts = {"a", "b", "c", "a", "b", "c", "c", "b", "a"};
  const std::vector<RankOrder> orders = {RankOrder(hosts), RankOrder(hosts, {2, 1, 0, 0, 2, 1, 2, 0, 1}),
                                         RankOrder(hosts, {0, 0, 1, 2, 1, 0, 2, 2, 1})};
  for (const Algorithm& algorithm : all_algorithms()) {
    if (!RankOrder::applies_to(algorithm.collective)) continue;
    for (const uint32_t root : {0u, 4u}) {
      const Shape real{algorithm.collective, Rank{9}, Rank{has_root(algorithm.collective) ? root : 0}, 4, 3};
      std::vector<Plan> plans;
      for (uint32_t r = 0; r < 9; ++r) plans.push_back(plan_in_orders(algorithm, real, Rank{r}, orders));
      const Status status = verify(real, plans);
      EXPECT_TRUE(status.ok()) << algorithm.name << " " << name_of(algorithm.collective) << ": " << status.c_str();
    }
  }
}

}  // namespace
}  // namespace tutti
