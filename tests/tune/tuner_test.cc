#include "tune/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tune/allocations.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Facts facts_of(uint32_t n, LinkKind links = LinkKind::mapped, uint32_t cores = 1024) {
  Facts facts;
  facts.nranks = Rank{n};
  facts.links = links;
  facts.crowded_ranks = n;
  facts.crowded_cores = cores;
  facts.l2_bytes = 1 << 20;
  facts.parameters = built_in_parameters(MachineClass::one_last_level_cache);
  return facts;
}

Config config_of(const std::vector<std::string>& entries) {
  Result<Config> config = config_from_entries(entries);
  EXPECT_TRUE(config.ok()) << config.status().c_str();
  return config.ok() ? std::move(config).value() : Config{};
}

Tuner tuner_of(const Facts& facts, const std::vector<std::string>& entries = {}) {
  Result<Tuner> tuner = Tuner::create(config_of(entries), facts);
  EXPECT_TRUE(tuner.ok()) << tuner.status().c_str();
  return std::move(tuner).value();
}

Choice choice_of(const Tuner& tuner, Collective collective, uint64_t bytes, Rank root = Rank{0}) {
  Result<Choice> choice = tuner.choose(collective, root, bytes);
  EXPECT_TRUE(choice.ok()) << choice.status().c_str();
  return choice.ok() ? *choice : Choice{};
}

double predicted(const Facts& facts, Collective collective, const Choice& choice, uint64_t bytes) {
  const CostTerms terms = choice.algorithm->terms({collective, facts.nranks, Rank{0}, choice.lanes});
  return predict(terms, facts, bytes, choice.tile_bytes).seconds();
}

TEST(Tuner, ChoosesForEveryCollectiveSizeAndNumberOfRanks) {
  for (const uint32_t n : {1u, 2u, 3u, 4u, 7u, 8u, 16u, 17u, 64u, 1000u})
    for (const LinkKind links : {LinkKind::mapped, LinkKind::tcp_one_host, LinkKind::tcp_between_hosts})
      for (int c = 0; c < kCollectiveCount; ++c) {
        const Tuner tuner = tuner_of(facts_of(n, links));
        for (int log2 = -1; log2 < 63; ++log2) {
          const uint64_t bytes = log2 < 0 ? 0 : uint64_t{1} << log2;
          const Choice choice = choice_of(tuner, static_cast<Collective>(c), bytes);
          ASSERT_NE(choice.algorithm, nullptr);
          EXPECT_EQ(choice.algorithm->collective, static_cast<Collective>(c));
          EXPECT_GE(choice.tile_bytes, 64u);
          EXPECT_FALSE(choice.forced);
        }
      }
}

// The first answer for a size class is kept, and is what every later question in the class gets, from any tuner of
// equal facts.
TEST(Tuner, AnswersAlikeWhateverWasAskedBefore) {
  const Facts facts = facts_of(6);
  const Tuner asked = tuner_of(facts);
  for (uint64_t bytes = 1; bytes < uint64_t{1} << 40; bytes = bytes * 5 / 3 + 1) {
    const Choice first = choice_of(asked, Collective::all_reduce, bytes);
    const Tuner fresh = tuner_of(facts);
    (void)choice_of(fresh, Collective::all_reduce, bytes / 7);
    for (const Choice& again :
         {choice_of(asked, Collective::all_reduce, bytes), choice_of(fresh, Collective::all_reduce, bytes)}) {
      EXPECT_EQ(again.algorithm, first.algorithm) << bytes;
      EXPECT_EQ(again.lanes, first.lanes);
      EXPECT_EQ(again.tile_bytes, first.tile_bytes);
    }
  }
}

// A choice is made for the middle of a size class: at its ends it is still nearly the best.
TEST(Tuner, TakesTheLeastPrediction) {
  for (const uint32_t n : {2u, 4u, 8u})
    for (const LinkKind links : {LinkKind::mapped, LinkKind::tcp_one_host}) {
      const Facts facts = facts_of(n, links, 2);
      const Tuner tuner = tuner_of(facts);
      for (const Collective c : {Collective::all_reduce, Collective::broadcast, Collective::reduce_scatter})
        for (uint64_t bytes = 8; bytes <= 64 << 20; bytes = bytes * 3 / 2) {
          const Choice choice = choice_of(tuner, c, bytes);
          const std::vector<Candidate> table = tuner.candidates(c, Rank{0}, bytes);
          ASSERT_FALSE(table.empty());
          double least = table[0].prediction.seconds();
          for (const Candidate& candidate : table) least = std::min(least, candidate.prediction.seconds());
          EXPECT_LE(predicted(facts, c, choice, bytes), 1.2 * least) << bytes << " bytes, " << choice.algorithm->name;
          for (size_t i = 1; i < table.size(); ++i) EXPECT_LE(table[i - 1].weight(), table[i].weight());
        }
    }
}

TEST(Tuner, AsksForAsFewHandOversAsPossibleWhenLittleIsSent) {
  Facts facts = facts_of(4);
  facts.parameters.links[0].latency_s = 1e-5;
  EXPECT_EQ(choice_of(tuner_of(facts), Collective::all_reduce, 8).algorithm->name, "all_pairs_one_shot");
  const Choice far = choice_of(tuner_of(facts_of(64, LinkKind::tcp_between_hosts)), Collective::all_reduce, 8);
  EXPECT_EQ(far.algorithm->name, "recursive_doubling");
}

TEST(Tuner, SendsTheLeastWhenMuchIsSent) {
  for (const uint32_t n : {4u, 8u, 32u}) {
    const Choice choice =
        choice_of(tuner_of(facts_of(n, LinkKind::tcp_between_hosts)), Collective::all_reduce, 256 << 20);
    const Shape shape{Collective::all_reduce, Rank{n}, Rank{0}, choice.lanes};
    const CostTerms terms = choice.algorithm->terms(shape);
    EXPECT_NEAR(terms.busiest.sent / terms.chunks * terms.copies, 2.0 * (n - 1) / n, 1e-9) << choice.algorithm->name;
  }
}

// Two hosts of four ranks: what leaves a host decides, and one ring would send nearly twice as much.
TEST(Tuner, GoesByNodesWhereTheNetworkIsSlow) {
  Facts facts = facts_of(8, LinkKind::tcp_between_hosts);
  facts.ranks_per_node = 4;
  facts.crowded_ranks = 4;
  facts.crowded_cores = 4;
  EXPECT_EQ(choice_of(tuner_of(facts), Collective::all_reduce, 64 << 20).algorithm->name, "hierarchical");
  // With a rank a node it would be another name for the ring, and is not offered unless it is asked for.
  facts.ranks_per_node = 1;
  for (const Candidate& candidate : tuner_of(facts).candidates(Collective::all_reduce, Rank{0}, 64 << 20))
    EXPECT_NE(candidate.algorithm->name, "hierarchical");
}

TEST(Tuner, KeepsTilesOfMappedLinksInTheSecondLevelCache) {
  Facts facts = facts_of(2);
  uint64_t last = 0;
  for (const uint64_t l2 : {uint64_t{256} << 10, uint64_t{1} << 20, uint64_t{4} << 20}) {
    facts.l2_bytes = l2;
    const Choice choice = choice_of(tuner_of(facts), Collective::all_reduce, 64 << 20);
    EXPECT_LE(choice.tile_bytes * choice.lanes, l2);
    EXPECT_GE(choice.tile_bytes * choice.lanes, last);
    last = choice.tile_bytes * choice.lanes;
  }
}

TEST(Tuner, OpensFewLinksWhereThereAreManyRanks) {
  for (const Collective c : {Collective::all_reduce, Collective::broadcast, Collective::all_gather})
    for (const uint64_t bytes : {8u, 4096u, 1u << 24}) {
      const Choice choice = choice_of(tuner_of(facts_of(200)), c, bytes);
      EXPECT_LE(choice.algorithm->terms({c, Rank{200}, Rank{0}, 1}).peers, 16u) << choice.algorithm->name;
    }
  // There is no other way.
  EXPECT_EQ(choice_of(tuner_of(facts_of(200)), Collective::all_to_all, 8).algorithm->name, "all_pairs");
  EXPECT_EQ(choice_of(tuner_of(facts_of(200), {"TUTTI_ALGO=all_pairs"}), Collective::all_reduce, 8).algorithm->name,
            "all_pairs");
}

TEST(Tuner, NoTileExceedsWhatLinksCarry) {
  Facts facts = facts_of(4);
  facts.max_message_bytes = 32 * 1024;
  EXPECT_LE(choice_of(tuner_of(facts), Collective::all_reduce, 1 << 30).tile_bytes, 32u * 1024);
  EXPECT_EQ(choice_of(tuner_of(facts, {"TUTTI_TILE=1M"}), Collective::all_reduce, 1 << 30).tile_bytes, 32u * 1024);
  facts.max_message_bytes = 1024;
  EXPECT_LE(choice_of(tuner_of(facts), Collective::all_reduce, 1 << 30).tile_bytes, 1024u);
}

TEST(Tuner, DoesAsItIsForced) {
  const Tuner tuner = tuner_of(facts_of(4), {"TUTTI_ALGO=tree;all_gather:ring", "TUTTI_LANES=3", "TUTTI_TILE=8K"});
  for (const uint64_t bytes : {0u, 8u, 1u << 20}) {
    const Choice choice = choice_of(tuner, Collective::all_reduce, bytes);
    EXPECT_EQ(choice.algorithm->name, "tree");
    EXPECT_TRUE(choice.forced);
    EXPECT_EQ(choice.lanes, 3u);
    EXPECT_EQ(choice.tile_bytes, 8u * 1024);
    EXPECT_EQ(choice_of(tuner, Collective::all_gather, bytes).algorithm->name, "ring");
    // The general list is not about them.
    EXPECT_EQ(choice_of(tuner, Collective::barrier, bytes).algorithm->name, "recursive_doubling");
    EXPECT_FALSE(choice_of(tuner, Collective::send, bytes).forced);
  }
}

TEST(Tuner, TakesTheCheapestOfWhatIsAllowed) {
  const Tuner tuner = tuner_of(facts_of(4), {"TUTTI_ALGO=ring,recursive_doubling"});
  EXPECT_EQ(choice_of(tuner, Collective::all_reduce, 8).algorithm->name, "recursive_doubling");
  EXPECT_EQ(choice_of(tuner, Collective::all_reduce, 64 << 20).algorithm->name, "ring");
  EXPECT_FALSE(choice_of(tuner, Collective::all_reduce, 8).forced);
}

TEST(Tuner, RefusesWhatCannotBeHad) {
  const auto problem = [](const std::string& algo) {
    return std::string(Tuner::create(config_of({"TUTTI_ALGO=" + algo}), facts_of(3)).status().message());
  };
  EXPECT_THAT(problem("rang"), AllOf(HasSubstr("'rang'"), HasSubstr("mean ring?")));
  EXPECT_THAT(problem("all_to_all:ring"), AllOf(HasSubstr("all_to_all"), HasSubstr("all_pairs")));
  const std::string all = "ring,tree,all_pairs,all_pairs_one_shot,recursive_doubling,halving_doubling,hierarchical";
  EXPECT_THAT(problem("all_reduce:^" + all), AllOf(HasSubstr("no algorithm for all_reduce"), HasSubstr("ring, tree")));
  EXPECT_THAT(problem("^" + all), AllOf(HasSubstr("no algorithm for any collective"), HasSubstr("ring, tree")));
  EXPECT_EQ(problem("^ring,tree,all_pairs,all_pairs_one_shot,recursive_doubling"), "success");
  EXPECT_THAT(problem("direct"), HasSubstr("no algorithm for any collective")) << "it is point-to-point messages' own";
  const Tuner tuner = tuner_of(facts_of(3), {"TUTTI_ALGO=tree"});
  for (int again = 0; again < 2; ++again) {
    const Status status = tuner.choose(Collective::all_gather, Rank{0}, 8).status();
    EXPECT_EQ(status.code(), tuttiInvalidUsage);
    EXPECT_THAT(status.c_str(), AllOf(HasSubstr("all_gather of 3 ranks"), HasSubstr("ring")));
  }
}

TEST(Tuner, AllocatesNothingWhenAskedAgain) {
  const Tuner tuner = tuner_of(facts_of(8));
  (void)choice_of(tuner, Collective::all_reduce, 1000);
  const uint64_t before = allocations();
  uint32_t lanes = 0;
  for (uint64_t bytes = 1000; bytes < 1010; ++bytes)
    lanes += tuner.choose(Collective::all_reduce, Rank{0}, bytes)->lanes;
  EXPECT_EQ(allocations(), before);
  EXPECT_GT(lanes, 0u);
}

TEST(Tuner, TablesNameTheChoice) {
  const Tuner tuner = tuner_of(facts_of(8));
  const std::string text = to_text(tuner.candidates(Collective::all_reduce, Rank{0}, 1 << 20),
                                   choice_of(tuner, Collective::all_reduce, 1 << 20));
  EXPECT_THAT(text, AllOf(HasSubstr("ring"), HasSubstr("tree"), HasSubstr("recursive_doubling"), HasSubstr("chosen")));
}

}  // namespace
}  // namespace tutti
