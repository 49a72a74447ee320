// Hierarchical AllReduce over nodes of several ranks: right, in place too, with the least bytes between nodes, and the
// cost that its closed form says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/cost.h"
#include "tests/plan/plan_fixture.h"

namespace tutti {
namespace {

const Algorithm& hierarchical() { return *find_algorithm("hierarchical", Collective::all_reduce); }

Shape shape_of(uint32_t nodes, uint32_t ranks_per_node, uint32_t copies = 1) {
  return {Collective::all_reduce, Rank{nodes * ranks_per_node}, Rank{0}, copies, ranks_per_node};
}

TEST(Hierarchical, IsRightForEveryGrouping) {
  for (uint32_t nodes = 1; nodes <= 6; ++nodes)
    for (uint32_t m = 1; m <= 6; ++m)
      for (uint32_t copies = 1; copies <= 3; ++copies) {
        const Shape shape = shape_of(nodes, m, copies);
        ASSERT_TRUE(hierarchical().applies(shape));
        const Status status = verify(shape, plans_for(hierarchical(), shape));
        ASSERT_TRUE(status.ok()) << nodes << " x " << m << ", " << copies << " copies: " << status.c_str();
      }
  for (const auto& [nodes, m] : {std::pair{2u, 32u}, {32u, 2u}, {16u, 8u}, {9u, 7u}}) {
    const Status status = verify(shape_of(nodes, m), plans_for(hierarchical(), shape_of(nodes, m)));
    ASSERT_TRUE(status.ok()) << nodes << " x " << m << ": " << status.c_str();
  }
}

TEST(Hierarchical, NeedsNodesOfOneSize) {
  EXPECT_FALSE(hierarchical().applies({Collective::all_reduce, Rank{7}, Rank{0}, 1, 2}));
  EXPECT_FALSE(hierarchical().applies({Collective::all_reduce, Rank{7}, Rank{0}, 1, 0}));
}

// Chunks that leave a node, and vectors that is.
double vectors_from_node_0(const Shape& shape) {
  const std::vector<Plan> plans = plans_for(hierarchical(), shape);
  uint64_t chunks = 0;
  for (uint32_t r = 0; r < shape.ranks_per_node; ++r)
    for (const Lane& lane : plans[r].lanes)
      for (const Move& move : lane.moves)
        for (uint32_t k = 0; k < move.send_count; ++k)
          if (lane.peers[move.send_first + k].rank >= shape.ranks_per_node) chunks += uint64_t{move.span} * move.repeat;
  return static_cast<double>(chunks) / plans[0].chunks;
}

TEST(Hierarchical, SendsTheLeastBetweenNodes) {
  for (const auto& [nodes, m] : {std::pair{2u, 4u}, {3u, 2u}, {8u, 8u}})
    EXPECT_DOUBLE_EQ(vectors_from_node_0(shape_of(nodes, m)), 2.0 * (nodes - 1) / nodes);
}

// Links within a node and between nodes have prices of their own.
TEST(Hierarchical, CostsWhatItsTermsSay) {
  const Prices far{.step_s = 3e-8,
                   .wait_s = 2e-5,
                   .message_s = 2e-6,
                   .send_s_per_byte = 9e-10,
                   .receive_s_per_byte = 0,
                   .fold_s_per_byte = 4e-11,
                   .store_s_per_byte = 5e-11};
  for (const auto& [nodes, m] : {std::pair{2u, 4u}, {5u, 3u}, {4u, 1u}, {1u, 4u}}) {
    const Shape shape = shape_of(nodes, m, 2);
    const CostTerms terms = hierarchical().terms(shape);
    const std::vector<Plan> plans = plans_for(hierarchical(), shape);
    ASSERT_EQ(terms.chunks, plans[0].chunks);
    const Result<Cost> cost = estimate_cost(shape, plans, busy_lanes(far), 4096, 1);
    ASSERT_TRUE(cost.ok()) << cost.status().c_str();
    for (const Work& work : cost.value().work)
      EXPECT_EQ(terms.copies * (terms.busiest + terms.near), work) << nodes << " x " << m;
    EXPECT_NEAR(cost.value().seconds, seconds(terms.first + terms.near, far, 4096), 1e-9) << nodes << " x " << m;
  }
}

}  // namespace
}  // namespace tutti
