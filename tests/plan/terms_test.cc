// The closed form of every algorithm's cost against its plans run over times.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <set>

#include "base/rng.h"
#include "plan/cost.h"
#include "tests/plan/plan_fixture.h"

namespace tutti {
namespace {

// As of a shared memory, of TCP on one host, of a slow network with a cheap CPU, and some that are like nothing.
std::vector<Prices> price_lists(size_t count) {
  std::vector<Prices> lists = {
      {.step_s = 2e-8,
       .wait_s = 1e-7,
       .message_s = 3e-8,
       .send_s_per_byte = 6e-11,
       .fold_s_per_byte = 4e-11,
       .store_s_per_byte = 5e-11},
      {.step_s = 5e-8,
       .wait_s = 5e-6,
       .wait_s_per_byte = 2e-10,
       .message_s = 1e-6,
       .send_s_per_byte = 1e-10,
       .receive_s_per_byte = 1e-10,
       .fold_s_per_byte = 4e-11,
       .store_s_per_byte = 5e-11},
      {.step_s = 1e-8, .wait_s = 5e-5, .message_s = 1e-6, .send_s_per_byte = 8e-9},
  };
  Rng rng(7);
  const auto price = [&](double most) { return most * static_cast<double>(1 + rng.below(1000)) / 1000; };
  while (lists.size() < count)
    lists.push_back(
        {price(1e-7), price(1e-5), price(1e-6), price(1e-9), price(1e-9), price(1e-9), price(1e-9), price(1e-9)});
  lists.resize(count);
  return lists;
}

class ClosedForm : public testing::TestWithParam<size_t> {
 protected:
  const Algorithm& algorithm() const { return all_algorithms()[GetParam()]; }

  // Calls check(shape, plans) for many n, some roots and numbers of copies.
  template <class Check>
  void for_each_shape(Check check) const {
    const Collective c = algorithm().collective;
    std::vector<uint32_t> sizes(24);
    std::iota(sizes.begin(), sizes.end(), 1);
    sizes.insert(sizes.end(), {31, 32, 33, 48, 64, 100, 129});
    if (c == Collective::send || c == Collective::recv) sizes = {2};
    for (const uint32_t n : sizes)
      for (const uint32_t root : has_root(c) && n > 1 ? std::vector<uint32_t>{0, n - 1} : std::vector<uint32_t>{0})
        for (const uint32_t copies : {1u, 2u}) {
          const Shape shape{c, Rank{n}, Rank{root}, copies};
          SCOPED_TRACE(fmt::format("n = {}, root {}, {} copies", n, root, copies));
          check(shape, plans_for(algorithm(), shape));
          if (testing::Test::HasFailure()) return;
        }
  }
  static Cost cost_of(const Shape& shape, const std::vector<Plan>& plans, const Prices& prices, double bytes,
                      uint32_t tiles) {
    const Result<Cost> cost = estimate_cost(shape, plans, busy_lanes(prices), bytes * tiles, tiles);
    EXPECT_TRUE(cost.ok()) << cost.status().c_str();
    return cost.ok() ? cost.value() : Cost{};
  }
  // How far the closed form may be above the run. all_to_all's and gather's count the copy of the own block, which goes
  // on while messages are under way: little of many. A tree's takes the slowest stage to lie on the longest way, which
  // it may not. Recursive doubling's counts a fold too much with ranks left over.
  double tolerance(const Shape& shape) const {
    if (shape.collective == Collective::all_to_all || shape.collective == Collective::gather) return 1.0 / shape.nranks;
    if (algorithm().name == "tree") return 0.25;
    return leaves_ranks_over(shape) ? 0.25 : 0;
  }
  bool leaves_ranks_over(const Shape& shape) const {
    return algorithm().name == "recursive_doubling" && shape.collective != Collective::all_gather &&
           !std::has_single_bit(uint32_t{shape.nranks});
  }
};

TEST_P(ClosedForm, IsWhatTheRunTakes) {
  for_each_shape([&](const Shape& shape, const std::vector<Plan>& plans) {
    const CostTerms terms = algorithm().terms(shape);
    const bool large = shape.nranks > 16;  // the plans of some have n * n messages
    for (const Prices& prices : large ? price_lists(2) : price_lists(8))
      for (const double bytes : large ? std::vector{5000.0} : std::vector{0.0, 64.0, 5000.0, 262144.0})
        for (const uint32_t tiles : large ? std::vector{1u, 3u} : std::vector{1u, 2u, 9u}) {
          const double run = cost_of(shape, plans, prices, bytes, tiles).seconds;
          const double formula =
              seconds(terms.first, prices, bytes) + (tiles - 1) * slowest_stage(terms, prices, bytes);
          ASSERT_GE(formula, run * (1 - 1e-9)) << bytes << " bytes, " << tiles << " tiles";
          ASSERT_LE(formula, run * (1 + tolerance(shape) + 1e-9)) << bytes << " bytes, " << tiles << " tiles";
        }
  });
}

TEST_P(ClosedForm, CountsTheWorkOfAllRanks) {
  for_each_shape([&](const Shape& shape, const std::vector<Plan>& plans) {
    const CostTerms terms = algorithm().terms(shape);
    ASSERT_EQ(terms.chunks, plans[0].chunks);
    const Prices prices = price_lists(1)[0];
    const std::vector<Work> by_rank = cost_of(shape, plans, prices, 64, 1).work;
    const Work all = std::accumulate(by_rank.begin(), by_rank.end(), Work{});
    // With ranks left over, who waits for whom depends on the prices.
    Work counted = terms.copies * terms.all;
    if (leaves_ranks_over(shape)) {
      ASSERT_NEAR(counted.waits, all.waits, 0.25 * all.waits);
      counted.waits = all.waits;
      counted.awaited = all.awaited;
    }
    ASSERT_EQ(counted, all);
    Prices busy = prices;
    busy.wait_s = busy.wait_s_per_byte = 0;
    double busiest = 0;
    for (const Work& work : by_rank) busiest = std::max(busiest, seconds(work, busy, 64));
    ASSERT_NEAR(seconds(terms.copies * terms.busiest, busy, 64), busiest, 1e-9 * busiest);
  });
}

TEST_P(ClosedForm, KnowsSpansLanesAndPeers) {
  for_each_shape([&](const Shape& shape, const std::vector<Plan>& plans) {
    const CostTerms terms = algorithm().terms(shape);
    uint32_t span = 1;
    size_t peers = 0, lanes = 0;
    for (const Plan& plan : plans) {
      lanes = std::max(lanes, plan.lanes.size());
      std::set<Rank> senders, receivers;
      for (const Lane& lane : plan.lanes)
        for (const Move& move : lane.moves) {
          span = std::max<uint32_t>(span, move.span);
          const uint32_t iterations = move.peer_step == 0 ? 1 : move.repeat;
          for (uint32_t k = 0; k < move.send_count * iterations; ++k)
            receivers.insert(lane.peers[(move.send_first + k) % lane.peers.size()].rank);
          for (uint32_t k = 0; k < move.recv_count * iterations; ++k)
            senders.insert(lane.peers[(move.recv_first + k) % lane.peers.size()].rank);
        }
      peers = std::max({peers, senders.size(), receivers.size()});
    }
    ASSERT_EQ(terms.span, span);
    if (shape.nranks > 1) {
      ASSERT_EQ(size_t{terms.lanes} * terms.copies, lanes);
    }
    ASSERT_GE(terms.peers, peers);
    ASSERT_LE(terms.peers, 2 * peers);
  });
}

std::vector<size_t> row_numbers() {
  std::vector<size_t> numbers(all_algorithms().size());
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

INSTANTIATE_TEST_SUITE_P(Rows, ClosedForm, testing::ValuesIn(row_numbers()), [](const auto& row) {
  const Algorithm& a = all_algorithms()[row.param];
  return fmt::format("{}_for_{}", a.name, name_of(a.collective));
});

}  // namespace
}  // namespace tutti
