// The proof: every algorithm, over the shapes that the library promises.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/algorithm.h"
#include "tests/plan/plan_fixture.h"

namespace tutti {
namespace {

// One test per row and range of n, so that a failure names the algorithm and ctest runs them side by side.
class EveryAlgorithm : public testing::TestWithParam<size_t> {
 protected:
  const Algorithm& algorithm() const { return all_algorithms()[GetParam()]; }

  // Verifies at n over the roots and numbers of copies given.
  void verify_at(uint32_t n, const std::vector<uint32_t>& roots, const std::vector<uint32_t>& copies) const {
    for (const uint32_t lanes : copies)
      for (const uint32_t root : has_root(algorithm().collective) ? roots : std::vector<uint32_t>{0}) {
        const Shape shape{algorithm().collective, Rank{n}, Rank{root}, lanes};
        ASSERT_TRUE(algorithm().applies(shape));
        const Status status = verify(shape, plans_for(algorithm(), shape));
        ASSERT_TRUE(status.ok()) << "n = " << n << ", root " << root << ", " << lanes << " copies: " << status.c_str();
      }
  }
};

// Sanitizers cost a factor of ten; the code they look at is the same at fewer sizes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint32_t kDenseEnd = 20;
constexpr uint32_t kLarge[] = {33, 64};
#else
constexpr uint32_t kDenseEnd = 64;
constexpr uint32_t kLarge[] = {96, 100, 127, 128, 255, 256, 1000};
#endif

TEST_P(EveryAlgorithm, HoldsForAllSmallNumbersOfRanksAndAllRoots) {
  for (uint32_t n = 1; n <= 16; ++n) {
    std::vector<uint32_t> roots(n);
    for (uint32_t r = 0; r < n; ++r) roots[r] = r;
    verify_at(n, roots, {1, 2, 3});
  }
}

TEST_P(EveryAlgorithm, HoldsForEveryNumberOfRanksUpTo64) {
  for (uint32_t n = 17; n <= kDenseEnd; ++n) verify_at(n, {0, n / 2, n - 1}, {1, 2});
}

TEST_P(EveryAlgorithm, HoldsForManyRanks) {
  for (const uint32_t n : kLarge) {
    verify_at(n, {0, n / 3}, {1});
    if (n < 256) verify_at(n, {n - 1}, {2});
  }
}

TEST_P(EveryAlgorithm, TakesAsManyCopiesAsItsPredicateAllows) {
  for (const uint32_t lanes : {4u, 32u, 64u}) {
    const Shape shape{algorithm().collective, Rank{5}, Rank{3}, lanes};
    if (!algorithm().applies(shape)) continue;
    const Status status = verify(shape, plans_for(algorithm(), shape));
    EXPECT_TRUE(status.ok()) << lanes << " copies: " << status.c_str();
  }
  EXPECT_FALSE(algorithm().applies({algorithm().collective, Rank{5}, Rank{3}, 65}));
  EXPECT_FALSE(algorithm().applies({algorithm().collective, Rank{5}, Rank{3}, 0}));
  EXPECT_FALSE(algorithm().applies({algorithm().collective, Rank{5}, Rank{5}, 1}));
}

std::vector<size_t> row_numbers() {
  std::vector<size_t> numbers(all_algorithms().size());
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  return numbers;
}

INSTANTIATE_TEST_SUITE_P(Rows, EveryAlgorithm, testing::ValuesIn(row_numbers()), [](const auto& row) {
  const Algorithm& a = all_algorithms()[row.param];
  return fmt::format("{}_for_{}", a.name, name_of(a.collective));
});

// A plan must stay small whatever n is: it is cached per rank, and a GPU engine passes it as kernel arguments.
TEST(PlanSize, RingAndAllPairsHaveAConstantNumberOfMoves) {
  for (const Algorithm& a : all_algorithms()) {
    if (a.name != "ring" && !a.name.starts_with("all_pairs") && a.name != "tree") continue;
    const auto moves = [&](uint32_t n) {
      const Plan plan = a.plan({a.collective, Rank{n}, Rank{0}, 1}, Rank{0});
      size_t count = 0;
      for (const Lane& lane : plan.lanes) count += lane.moves.size();
      return count;
    };
    EXPECT_EQ(moves(8), moves(1000)) << a.name << " " << name_of(a.collective);
    EXPECT_LE(moves(1000), 5u) << a.name << " " << name_of(a.collective);
  }
}

// What the tree's drawing promises: no rank is inner node twice, so none sends more than about a whole vector.
TEST(DoubleTree, NoRankHasChildrenInBothTrees) {
  const Algorithm* tree = find_algorithm("tree", Collective::broadcast);
  ASSERT_NE(tree, nullptr);
  for (uint32_t n = 2; n <= 130; ++n)
    for (uint32_t root : {0u, n / 2})
      for (uint32_t r = 0; r < n; ++r) {
        if (r == root) continue;
        const Plan plan = tree->plan({Collective::broadcast, Rank{n}, Rank{root}, 1}, Rank{r});
        ASSERT_EQ(plan.lanes.size(), 2u);
        const auto children = [&](size_t lane) { return plan.lanes[lane].moves.at(0).send_count; };
        EXPECT_LE(children(0), 2);
        EXPECT_LE(children(1), 2);
        EXPECT_TRUE(children(0) == 0 || children(1) == 0) << "n = " << n << ", rank " << r;
      }
}

}  // namespace
}  // namespace tutti
