#include "tune/predict.h"

#include <gtest/gtest.h>

#include "algorithms/algorithm.h"

namespace tutti {
namespace {

Facts facts_of(uint32_t n, uint32_t cores) {
  Facts facts;
  facts.nranks = Rank{n};
  facts.crowded_ranks = n;
  facts.crowded_cores = cores;
  facts.l2_bytes = uint64_t{1} << 40;  // nothing spills
  facts.parameters = built_in_parameters(MachineClass::one_last_level_cache);
  return facts;
}

CostTerms terms_of(std::string_view name, uint32_t n, uint32_t lanes = 1, Collective c = Collective::all_reduce) {
  return find_algorithm(name, c)->terms({c, Rank{n}, Rank{0}, lanes});
}

TEST(Cut, SharesAMessageAmongTheChunksOfASpan) {
  const CostTerms plain{.chunks = 4};
  EXPECT_EQ(cut(plain, 4 << 20, 256 << 10).tiles, 4);
  EXPECT_EQ(cut(plain, 4 << 20, 256 << 10).tile_bytes, 256 << 10);
  const CostTerms spans{.chunks = 4, .span = 2};
  EXPECT_EQ(cut(spans, 4 << 20, 256 << 10).tiles, 8);
  EXPECT_EQ(cut(plain, 0, 64).tiles, 1);
  EXPECT_EQ(cut(plain, 0, 64).tile_bytes, 0);
  EXPECT_EQ(cut(plain, 1, 64).tile_bytes, 1);
  EXPECT_EQ(cut(CostTerms{.chunks = 1000, .span = 500}, 1 << 20, 64).tiles, 1049);
}

// By hand: two ranks, one-shot, one tile.
TEST(Predict, IsTheSumOfWhatHappens) {
  const Facts facts = facts_of(2, 2);
  const Parameters& p = facts.parameters;
  const LinkParameters& link = p.link(LinkKind::mapped);
  const double bytes = 4096;
  const double way = p.operation_s + 2 * p.step_s + 2 * link.message_s + link.latency_s +
                     bytes * (link.send_s_per_byte + p.fold_s_per_byte + p.store_s_per_byte);
  const Prediction got = predict(terms_of("all_pairs_one_shot", 2), facts, 4096, 1 << 20);
  EXPECT_NEAR(got.way_s, way, 1e-9 * way);
  EXPECT_NEAR(got.rank_s, way - link.latency_s, 1e-9 * way);
  EXPECT_EQ(got.cores_s, 0);
  EXPECT_EQ(got.seconds(), got.way_s);
}

// Lanes of a rank share its thread: they hide waiting, not work.
TEST(Predict, LanesHideWaitingOnly) {
  Facts facts = facts_of(4, 4);
  const Prediction one = predict(terms_of("ring", 4, 1), facts, 1 << 20, 16 << 10);
  const Prediction four = predict(terms_of("ring", 4, 4), facts, 1 << 20, 16 << 10);
  EXPECT_LT(four.way_s, one.way_s / 3);
  // The same work, and a look at three other lanes with each of its steps.
  EXPECT_NEAR(four.rank_s, one.rank_s + 3 * (7 * 16) * facts.parameters.step_s, 1e-9);
  EXPECT_EQ(four.seconds(), four.rank_s);
}

TEST(Predict, MoreRanksThanCoresShareThem) {
  const Facts crowded = facts_of(8, 2), roomy = facts_of(8, 8);
  for (const char* name : {"ring", "all_pairs", "halving_doubling", "tree", "recursive_doubling"}) {
    const CostTerms terms = terms_of(name, 8);
    const Prediction narrow = predict(terms, crowded, 16 << 20, 256 << 10),
                     wide = predict(terms, roomy, 16 << 20, 256 << 10);
    EXPECT_EQ(wide.cores_s, 0) << name;
    // All ranks' work on two cores: at least that of the average rank four times over.
    EXPECT_GE(narrow.seconds(), 8.0 / 2 * wide.rank_s * 0.4) << name;
  }
  // Nothing to do but to hand over: in a ring n times, in one-shot once.
  const double ring = predict(terms_of("ring", 8), crowded, 0, 64).seconds();
  const double one_shot = predict(terms_of("all_pairs_one_shot", 8), crowded, 0, 64).seconds();
  EXPECT_GT(ring, 3 * one_shot);
}

TEST(Predict, OnlyTheCrowdedNodesShareOfTheWorkCounts) {
  Facts facts = facts_of(8, 2);
  facts.links = LinkKind::tcp_between_hosts;
  const double together = predict(terms_of("ring", 8), facts, 1 << 20, 64 << 10).cores_s;
  facts.crowded_ranks = 4;
  EXPECT_NEAR(predict(terms_of("ring", 8), facts, 1 << 20, 64 << 10).cores_s - facts.parameters.operation_s,
              (together - facts.parameters.operation_s) / 2, 1e-9);
}

TEST(Predict, BytesThatSpillOverTheCacheCostMore) {
  Facts facts = facts_of(4, 4);
  const CostTerms terms = terms_of("ring", 4);
  const double in_cache = predict(terms, facts, 16 << 20, 256 << 10).seconds();
  facts.l2_bytes = 64 << 10;
  EXPECT_GT(predict(terms, facts, 16 << 20, 256 << 10).seconds(), 1.1 * in_cache);
  EXPECT_NEAR(predict(terms, facts, 16 << 20, 4 << 10).seconds(),
              predict(terms, facts_of(4, 4), 16 << 20, 4 << 10).seconds(), 1e-9);
  // Ranks of one core share its cache.
  facts.l2_bytes = 256 << 10;
  const Prediction alone = predict(terms, facts, 16 << 20, 256 << 10);
  facts.crowded_cores = 2;
  EXPECT_GT(predict(terms, facts, 16 << 20, 256 << 10).rank_s, 1.05 * alone.rank_s);
}

}  // namespace
}  // namespace tutti
