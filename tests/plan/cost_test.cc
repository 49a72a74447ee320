#include "plan/cost.h"

#include <gtest/gtest.h>

#include <bit>

#include "plan/cache.h"
#include "tests/plan/plan_fixture.h"

namespace tutti {
namespace {

constexpr double kAlpha = 2e-6, kBeta = 1e-10, kGamma = 3e-11, kStep = 1e-7;
constexpr double kBytes = 1 << 20;

Cost cost_of(std::string_view name, Collective collective, uint32_t n, const CostModel& model, uint32_t tiles = 1,
             uint32_t lanes = 1) {
  const Shape shape{collective, Rank{n}, Rank{0}, lanes};
  const std::vector<Plan> plans = plans_for(*find_algorithm(name, collective), shape);
  const Result<Cost> cost = estimate_cost(shape, plans, model, kBytes / plans[0].chunks, tiles);
  EXPECT_TRUE(cost.ok()) << cost.status().c_str();
  return cost.ok() ? cost.value() : Cost{};
}

CostModel with_work(CostModel model) {
  model.gamma_s_per_byte = kGamma;
  model.step_s = kStep;
  return model;
}

TEST(Cost, RingAllReduceCostsWhatItsFormulaSays) {
  for (const uint32_t n : {2u, 3u, 4u, 8u, 17u, 64u}) {
    const double chunk_bytes = kBytes / n, hops = n - 1;
    const double formula =
        2 * hops * (kAlpha + kBeta * chunk_bytes) + hops * kGamma * chunk_bytes + (2 * hops + 1) * kStep;
    const Cost cost = cost_of("ring", Collective::all_reduce, n, with_work(full_mesh(n, kAlpha, kBeta)));
    EXPECT_NEAR(cost.seconds, formula, 1e-9 * formula) << "n = " << n;
    EXPECT_NEAR(cost.bytes_sent_max, 2 * hops / n * kBytes, 1e-6);
    EXPECT_EQ(cost.messages, 2ull * n * (n - 1));
  }
}

TEST(Cost, HalvingDoublingCostsWhatItsFormulaSays) {
  for (const uint32_t n : {2u, 4u, 8u, 64u}) {
    const double rounds = std::bit_width(n) - 1, share = (n - 1.0) / n * kBytes;
    const double formula = 2 * rounds * kAlpha + 2 * kBeta * share;
    const Cost cost = cost_of("halving_doubling", Collective::all_reduce, n, full_mesh(n, kAlpha, kBeta));
    EXPECT_NEAR(cost.seconds, formula, 1e-9 * formula) << "n = " << n;
  }
}

TEST(Cost, RecursiveDoublingSendsTheVectorInEveryRound) {
  const Cost cost = cost_of("recursive_doubling", Collective::all_reduce, 16, full_mesh(16, kAlpha, kBeta));
  EXPECT_NEAR(cost.seconds, 4 * (kAlpha + kBeta * kBytes), 1e-12);
}

// Lower bounds (Chan et al. 2007): through one port, no reduction of all data to all ranks sends less than 2 (n - 1) /
// n vectors, and nothing is quicker than one latency.
TEST(Cost, NoAllReduceBeatsTheLowerBound) {
  for (const Algorithm& a : all_algorithms()) {
    if (a.collective != Collective::all_reduce) continue;
    for (const uint32_t n : {2u, 3u, 5u, 8u, 12u, 16u, 33u})
      for (const uint32_t tiles : {1u, 8u}) {
        const Cost cost = cost_of(a.name, a.collective, n, one_port(kAlpha, kBeta), tiles);
        const double bound = kAlpha + kBeta * 2 * (n - 1) / n * kBytes;
        EXPECT_GE(cost.seconds, bound * (1 - 1e-9)) << a.name << ", n = " << n << ", tiles " << tiles;
        EXPECT_GE(cost.bytes_sent_max, 2.0 * (n - 1) / n * kBytes * (1 - 1e-9)) << a.name;
      }
  }
}

TEST(Cost, TilesMakeAPipelineOfChainsAndTrees) {
  constexpr uint32_t kRanks = 16;
  const double whole = cost_of("ring", Collective::broadcast, kRanks, one_port(kAlpha, kBeta), 1).seconds;
  const double tiled = cost_of("ring", Collective::broadcast, kRanks, one_port(kAlpha, kBeta), 64).seconds;
  EXPECT_NEAR(whole, (kRanks - 1) * (kAlpha + kBeta * kBytes), 1e-12);
  EXPECT_NEAR(tiled, (kRanks - 1) * (kAlpha + kBeta * kBytes / 64) + 63 * kBeta * kBytes / 64, 1e-12);
  // Two trees, each with half of the bytes: the pipeline runs at about the speed of one vector over a link.
  const double tree = cost_of("tree", Collective::broadcast, kRanks, one_port(kAlpha, kBeta), 64).seconds;
  EXPECT_LT(tree, 1.5 * kBeta * kBytes + 2 * 5 * kAlpha);
}

TEST(Cost, SaysWhatIsWrong) {
  const Shape shape{Collective::all_reduce, Rank{2}, Rank{0}, 1};
  const std::vector<Plan> plans = plans_of(shape, find_algorithm("ring", Collective::all_reduce)->plan);
  EXPECT_EQ(estimate_cost(shape, plans, CostModel{}, 1).status().code(), tuttiInvalidArgument);
  EXPECT_EQ(estimate_cost(shape, std::span(plans).first(1), one_port(1, 1), 1).status().code(), tuttiInvalidArgument);
  EXPECT_EQ(estimate_cost(shape, {}, one_port(1, 1), 1).status().code(), tuttiInvalidArgument);
  EXPECT_EQ(estimate_cost(shape, std::vector<Plan>{plans[0], plans[0]}, one_port(1, 1), 1).status().code(),
            tuttiInvalidUsage);
}

TEST(PlanCache, MakesEachPlanOnce) {
  PlanCache cache;
  int made = 0;
  const Algorithm* ring = find_algorithm("ring", Collective::all_reduce);
  const auto get = [&](const PlanKey& key) -> const Plan& {
    return cache.get(key, [&] { return ++made, ring->plan(key.shape, key.rank); });
  };
  const PlanKey key{ring->name, {Collective::all_reduce, Rank{4}, Rank{0}, 1}, Rank{2}};
  const Plan& first = get(key);
  EXPECT_EQ(&get(key), &first);
  EXPECT_EQ(made, 1);
  for (PlanKey other : {PlanKey{"tree", key.shape, key.rank}, PlanKey{key.algorithm, key.shape, Rank{3}},
                        PlanKey{key.algorithm, {Collective::reduce, Rank{4}, Rank{0}, 1}, Rank{2}},
                        PlanKey{key.algorithm, {Collective::all_reduce, Rank{5}, Rank{0}, 1}, Rank{2}},
                        PlanKey{key.algorithm, {Collective::all_reduce, Rank{4}, Rank{1}, 1}, Rank{2}},
                        PlanKey{key.algorithm, {Collective::all_reduce, Rank{4}, Rank{0}, 2}, Rank{2}}})
    get(other);
  EXPECT_EQ(made, 7);
  EXPECT_EQ(cache.size(), 7u);
  EXPECT_EQ(&get(key), &first);
  cache.clear();
  EXPECT_EQ(cache.size(), 0u);
}

}  // namespace
}  // namespace tutti
