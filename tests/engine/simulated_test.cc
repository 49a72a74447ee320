// The host engine over the simulated network: every algorithm, systematically and by drawn shapes.
//
// TUTTI_TEST_SEED=N runs one of the drawn seeds alone.
#include <gtest/gtest.h>

#include <cstdlib>

#include "plan/contract.h"
#include "tests/engine/buffers.h"
#include "tests/engine/rows.h"

namespace tutti {
namespace {

// Receive is the other half of send, and performed with it.
std::vector<const Algorithm*> performed_algorithms() {
  return algorithms_that([](const Algorithm& a) { return a.collective != Collective::recv; });
}

// What a drawn call and a systematic one have in common.
Call draw_details(Rng& rng, const Algorithm& algorithm) {
  Call call;
  call.algorithm = &algorithm;
  call.type = static_cast<DataType>(rng.below(kDataTypeCount));
  call.op = static_cast<ReduceOp>(rng.below(kReduceOpCount));
  call.data_seed = rng.below(1 << 20);
  return call;
}

bool can_be_in_place(const Algorithm& a) {
  return Contract::allows_in_place(a.collective) && a.collective != Collective::send &&
         a.collective != Collective::barrier;
}
bool can_be_variable(const Algorithm& a) {
  return has_many_blocks(a.collective, Buffer::in) || has_many_blocks(a.collective, Buffer::out);
}

// ThreadSanitizer is 20 times slower and has nothing to find in one thread; threads_test.cc is for it.
#if defined(__SANITIZE_THREAD__)
constexpr uint32_t kRankNumbers[] = {1, 3, 4};
constexpr uint64_t kSeeds = 100;
#else
constexpr uint32_t kRankNumbers[] = {1, 2, 3, 4, 5, 7, 8};
constexpr uint64_t kSeeds = 1000;
#endif
constexpr uint64_t kSeedsPerTest = 100;

class EveryAlgorithm : public testing::TestWithParam<const Algorithm*> {
 protected:
  static std::vector<std::vector<uint64_t>> equal_counts(const Algorithm& a, uint32_t n) {
    if (a.collective == Collective::barrier) return {{0}, {0}};
    // Two tiles of 256 bytes or more even in the smallest chunk of one-byte elements.
    const uint64_t many = can_be_variable(a) ? 1031 : 517 * n + 1;
    return {{0}, {1}, {13}, {many}};
  }

  static std::vector<std::vector<uint64_t>> ragged_counts(Rng& rng, const Algorithm& a, uint32_t n) {
    std::vector<uint64_t> counts(a.collective == Collective::all_to_all ? n * n : n);
    std::vector<uint64_t> zeros = counts;
    for (uint64_t& count : counts) count = rng.below(3) == 0 ? 0 : rng.below(700);
    return {zeros, counts};
  }
};

TEST_P(EveryAlgorithm, IsRightForAllShapes) {
  const Algorithm& algorithm = *GetParam();
  for (const uint32_t n : kRankNumbers)
    for (const LinkKind links : {LinkKind::mapped, LinkKind::put, LinkKind::mixed, LinkKind::shared}) {
      // All calls of one ensemble use the same FIFOs, and the same executions where shapes agree.
      Ensemble ensemble({.nranks = Rank{n}, .links = links, .seed = n});
      uint32_t sequence = 0;
      Rng rng(n);
      for (const uint32_t root : {0u, n - 1})
        for (const uint32_t lanes : {1u, 2u})
          for (const bool in_place : {false, true}) {
            if (in_place && !can_be_in_place(algorithm)) continue;
            if (root != 0 && !has_root(algorithm.collective) && algorithm.collective != Collective::send) continue;
            Call call = draw_details(rng, algorithm);
            call.root = Rank{root};
            call.lanes = lanes;
            call.in_place = in_place;
            for (const auto& counts : equal_counts(algorithm, n)) {
              call.counts = counts;
              const Status status = perform(ensemble, call, sequence++);
              ASSERT_TRUE(status.ok()) << describe(ensemble.options()) << ": " << status.c_str();
            }
            if (!can_be_variable(algorithm)) continue;
            call.variable = true;
            for (const auto& counts : ragged_counts(rng, algorithm, n))
              for (const bool scattered : {false, true}) {
                call.counts = counts;
                call.scattered = scattered;
                const Status status = perform(ensemble, call, sequence++);
                ASSERT_TRUE(status.ok()) << describe(ensemble.options()) << ": " << status.c_str();
              }
          }
    }
}

INSTANTIATE_TEST_SUITE_P(Rows, EveryAlgorithm, testing::ValuesIn(performed_algorithms()), name_of_row);

// ---- drawn ensembles and calls

EnsembleOptions draw_ensemble(Rng& rng) {
  EnsembleOptions options;
  options.nranks = Rank{1 + static_cast<uint32_t>(rng.below(8))};
  options.links = static_cast<LinkKind>(rng.below(4));
  options.seed = rng.next();
  options.network.queue_depth = 1 + static_cast<uint32_t>(rng.below(4));
  options.network.latency_min = rng.below(2) * kMicrosecond;
  // From nearly none to one that dwarfs all else, so that links overtake each other by several messages.
  options.network.latency_max = options.network.latency_min + kMicrosecond * (uint64_t{1} << rng.below(9));
  options.network.bytes_per_us = rng.below(3) == 0 ? 0 : 10 + rng.below(10'000);
  if (rng.below(4) == 0)
    for (uint32_t r = 0; r < options.nranks; ++r)
      options.faults[r] = {.seed = rng.next(),
                           .delay_polls_max = static_cast<uint32_t>(rng.below(4)),
                           .spurious_percent = static_cast<uint32_t>(rng.below(40))};
  return options;
}

uint64_t draw_count(Rng& rng) {
  switch (rng.below(4)) {
    case 0:
      return rng.below(3);
    case 1:
      return 2 * rng.below(40) + 1;
    default:
      return rng.below(600);
  }
}

Call draw_call(Rng& rng, const Algorithm& algorithm, uint32_t n) {
  Call call = draw_details(rng, algorithm);
  call.root = Rank{static_cast<uint32_t>(rng.below(n))};
  call.lanes = 1 + static_cast<uint32_t>(rng.below(3));
  call.in_place = rng.below(2) == 0 && can_be_in_place(algorithm);
  call.variable = rng.below(2) == 0 && can_be_variable(algorithm);
  call.scattered = call.variable && rng.below(2) == 0;
  call.tile_bytes = uint64_t{64} << rng.below(5);
  call.counts.assign(!call.variable ? 1 : algorithm.collective == Collective::all_to_all ? n * n : n, 0);
  for (uint64_t& count : call.counts) count = algorithm.collective == Collective::barrier ? 0 : draw_count(rng);
  return call;
}

// Up to six calls on one ensemble. Those of one algorithm often have equal roots and copies, and then one execution.
Status run_seed(uint64_t seed) {
  Rng rng(seed);
  const EnsembleOptions options = draw_ensemble(rng);
  Ensemble ensemble(options);
  const std::vector<const Algorithm*> algorithms = performed_algorithms();
  const Algorithm* favourite = algorithms[rng.below(algorithms.size())];
  const uint64_t calls = 1 + rng.below(6);
  for (uint32_t sequence = 0; sequence < calls; ++sequence) {
    const Algorithm& algorithm = rng.below(2) == 0 ? *favourite : *algorithms[rng.below(algorithms.size())];
    TUTTI_TRY(perform(ensemble, draw_call(rng, algorithm, options.nranks), sequence).within(describe(options)));
  }
  return {};
}

class DrawnSeeds : public testing::TestWithParam<uint64_t> {};

TEST_P(DrawnSeeds, AreRight) {
  const char* one = std::getenv("TUTTI_TEST_SEED");
  const uint64_t first = one ? std::strtoull(one, nullptr, 10) : GetParam();
  const uint64_t end = first + (one ? 1 : kSeedsPerTest);
  for (uint64_t seed = first; seed < end; ++seed) {
    const Status status = run_seed(seed);
    EXPECT_TRUE(status.ok()) << "TUTTI_TEST_SEED=" << seed << ": " << status.c_str();
  }
}

INSTANTIATE_TEST_SUITE_P(From, DrawnSeeds, testing::Range(uint64_t{0}, kSeeds, kSeedsPerTest));

}  // namespace
}  // namespace tutti
