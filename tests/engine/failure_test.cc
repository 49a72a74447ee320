// Ranks that disagree, transports that fail, ranks that are lost: an error that says who, and never a wrong result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/rows.h"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// All ranks of an ensemble in one all_reduce of uint32, each with a stamp and a count of its own.
class Summing {
 public:
  Summing(Ensemble& ensemble, std::string_view algorithm, uint64_t count,
          Collective collective = Collective::all_reduce)
      : ensemble_(ensemble), algorithm_(*find_algorithm(algorithm, collective)) {
    stamps.assign(ensemble.size(), {.tag = 7, .sequence = 3});
    counts.assign(ensemble.size(), count);
  }

  void start() {
    for (uint32_t r = 0; r < ensemble_.size(); ++r) {
      memory_.emplace_back(counts[r], r + 1);
      auto player = ensemble_.player(algorithm_, {algorithm_.collective, ensemble_.size(), Rank{0}, 1}, Rank{r});
      ASSERT_TRUE(player.ok()) << player.status().c_str();
      Execution& execution = *player.value()->execution;
      auto* data = reinterpret_cast<std::byte*>(memory_[r].data());
      const Layout layout({counts[r], {}, {}}, 1, execution.grid().chunks_per_block, 4);
      execution.start({.in = data,
                       .out = data,
                       .in_layout = layout,
                       .out_layout = layout,
                       .fold = {DataType::uint32, ReduceOp::sum, ensemble_.size(), 0},
                       .tile_bytes = 256,
                       .stamp = stamps[r]});
      parts.push_back({Rank{r}, &execution, {}, false});
    }
  }
  void run() {
    start();
    ensemble_.drive(parts, kSecond, [this](Ensemble::Part& part) {
      const uint32_t n = ensemble_.size();
      for (const uint32_t value : memory_[part.rank]) EXPECT_EQ(value, n * (n + 1) / 2) << "rank " << part.rank;
    });
  }

  std::vector<Stamp> stamps;
  std::vector<uint64_t> counts;
  std::vector<Ensemble::Part> parts;

 private:
  Ensemble& ensemble_;
  const Algorithm& algorithm_;
  std::vector<std::vector<uint32_t>> memory_;
};

class Disagreement : public testing::TestWithParam<LinkKind> {};

TEST_P(Disagreement, OnTheOperationNamesThePeerAndItsStamp) {
  for (const Stamp& other : {Stamp{.tag = 8, .sequence = 3}, Stamp{.tag = 7, .sequence = 4}}) {
    Ensemble ensemble({.nranks = Rank{2}, .links = GetParam()});
    Summing sum(ensemble, "ring", 100);
    sum.stamps[1] = other;
    sum.run();
    for (uint32_t r = 0; r < 2; ++r) {
      EXPECT_EQ(sum.parts[r].status.code(), tuttiInvalidUsage);
      const auto& mismatch = sum.parts[r].execution->mismatch();
      ASSERT_TRUE(mismatch.has_value()) << "rank " << r;
      EXPECT_EQ(mismatch->peer, Rank{1 - r});
      EXPECT_EQ(mismatch->theirs, sum.stamps[1 - r]);
      EXPECT_EQ(sum.parts[r].execution->stamp(), sum.stamps[r]);
    }
  }
}

TEST_P(Disagreement, OnTheSizeSaysBothSizes) {
  Ensemble ensemble({.nranks = Rank{2}, .links = GetParam()});
  Summing sum(ensemble, "all_pairs_one_shot", 40);
  sum.counts[1] = 30;
  sum.run();
  for (uint32_t r = 0; r < 2; ++r) {
    EXPECT_EQ(sum.parts[r].status.code(), tuttiInvalidUsage);
    const auto& mismatch = sum.parts[r].execution->mismatch();
    ASSERT_TRUE(mismatch.has_value()) << "rank " << r;
    EXPECT_EQ(mismatch->peer, Rank{1 - r});
    EXPECT_EQ(mismatch->theirs, sum.stamps[r]);
    EXPECT_EQ(mismatch->bytes, sum.counts[1 - r] * 4);
    EXPECT_EQ(mismatch->expected_bytes, sum.counts[r] * 4);
  }
}

// Nothing against something: the empty message is sent all the same.
TEST_P(Disagreement, OnWhetherThereIsAnythingIsNoticed) {
  Ensemble ensemble({.nranks = Rank{2}, .links = GetParam()});
  Summing sum(ensemble, "ring", 100);
  sum.counts[0] = 0;
  sum.run();
  for (const Ensemble::Part& part : sum.parts) EXPECT_EQ(part.status.code(), tuttiInvalidUsage);
}

TEST_P(Disagreement, OfOneAmongManyIsSeenByThoseThatItSendsTo) {
  for (const std::string_view algorithm : {"ring", "all_pairs", "recursive_doubling", "halving_doubling", "tree"}) {
    Ensemble ensemble({.nranks = Rank{4}, .links = GetParam()});
    Summing sum(ensemble, algorithm, 100);
    sum.stamps[2].tag = 99;
    sum.run();
    int seen = 0;
    for (const Ensemble::Part& part : sum.parts) {
      EXPECT_FALSE(part.finished && part.rank == 2) << algorithm;
      if (!part.execution->mismatch() || part.rank == 2) continue;
      ++seen;
      EXPECT_EQ(part.execution->mismatch()->peer, Rank{2}) << algorithm;
      EXPECT_EQ(part.execution->mismatch()->theirs.tag, 99u) << algorithm;
    }
    EXPECT_GT(seen, 0) << algorithm;
  }
}

INSTANTIATE_TEST_SUITE_P(Links, Disagreement, testing::Values(LinkKind::mapped, LinkKind::put, LinkKind::mixed, LinkKind::shared),
                         [](const auto& kind) { return std::string(name_of(kind.param)); });

// ---- transports that fail

class FailingTransport : public testing::TestWithParam<LinkKind> {};

TEST_P(FailingTransport, EndsTheExecutionWithItsErrorWhicheverCallFails) {
  uint64_t call = 0;
  for (bool failed = true; failed; ++call) {
    EnsembleOptions options{.nranks = Rank{3}, .links = GetParam()};
    options.faults[1] = {.fail_at_call = call, .failure = Status(tuttiRemoteError, "the cable is out")};
    Ensemble ensemble(options);
    Summing sum(ensemble, "ring", 200);
    sum.run();
    failed = !sum.parts[1].finished;
    if (!failed) continue;
    ASSERT_EQ(sum.parts[1].status.code(), tuttiRemoteError) << "call " << call;
    ASSERT_THAT(std::string(sum.parts[1].status.message()), HasSubstr("the cable is out"));
    ASSERT_FALSE(sum.parts[1].execution->mismatch());
  }
  // Two to four messages a tile, and more than one tile, sent and received.
  EXPECT_GT(call, 8u);
}

TEST_P(FailingTransport, OfALostRankIsNoticedByThoseWhoNeedIt) {
  for (const Nanoseconds at : {Nanoseconds{0}, 10 * kMicrosecond, 40 * kMicrosecond}) {
    EnsembleOptions options{.nranks = Rank{3}, .links = GetParam()};
    options.network.loss = SimOptions::Loss{.rank = Rank{1}, .at = at};
    Ensemble ensemble(options);
    Summing sum(ensemble, "ring", 4000);
    sum.run();
    EXPECT_EQ(sum.parts[1].status.code(), tuttiSystemError);
    int noticed = 0;
    for (const Ensemble::Part& part : sum.parts) {
      EXPECT_FALSE(part.finished);
      if (part.status.code() != tuttiRemoteError) continue;
      ++noticed;
      EXPECT_THAT(std::string(part.status.message()), HasSubstr("rank 1"));
    }
    EXPECT_GT(noticed, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Links, FailingTransport, testing::Values(LinkKind::mapped, LinkKind::put, LinkKind::shared),
                         [](const auto& kind) { return std::string(name_of(kind.param)); });

TEST(Create, HandsOnTheErrorOfALinkThatCannotBeOpened) {
  class Unopened final : public LinkSource {
   public:
    Unopened(LinkSource& inner, int opened) : inner_(inner), left_(opened) {}
    Result<SendEnd*> send_end(const Peer& peer) override {
      if (left_-- == 0) return fail(tuttiSystemError, "no more descriptors");
      return inner_.send_end(peer);
    }
    Result<RecvLink*> recv_link(const Peer& peer) override {
      if (left_-- == 0) return fail(tuttiSystemError, "no more descriptors");
      return inner_.recv_link(peer);
    }

   private:
    LinkSource& inner_;
    int left_;
  };
  const Algorithm& pairs = *find_algorithm("all_pairs", Collective::all_reduce);
  const Shape shape{Collective::all_reduce, Rank{3}, Rank{0}, 1};
  for (int opened = 0; opened <= 4; ++opened) {
    Ensemble ensemble({.nranks = Rank{3}});
    Unopened links(ensemble.links(Rank{0}), opened);
    const auto execution = Execution::create(pairs.plan(shape, Rank{0}), shape.collective, shape.nranks, links);
    EXPECT_EQ(execution.ok(), opened == 4) << opened;  // two ends in each direction
    if (execution.ok()) continue;
    EXPECT_THAT(std::string(execution.status().message()), HasSubstr("no more descriptors"));
  }
}

// ---- whom a blocked execution waits for

using Wait = Execution::Wait;

TEST(Waits, NameWhoHasSentNothing) {
  Ensemble ensemble({.nranks = Rank{4}});
  Summing sum(ensemble, "all_pairs", 100);
  sum.start();
  EXPECT_EQ(sum.parts[0].execution->waits().size(), 0u) << "nothing has been tried yet";
  ASSERT_TRUE(sum.parts[0].execution->poll().ok());
  EXPECT_THAT(sum.parts[0].execution->waits(),
              testing::UnorderedElementsAre(Wait{Rank{1}, true}, Wait{Rank{2}, true}, Wait{Rank{3}, true}));
}

TEST(Waits, NameWhoHasTakenNothing) {
  for (const LinkKind links : {LinkKind::mapped, LinkKind::put, LinkKind::shared}) {
    EnsembleOptions options{.nranks = Rank{2}, .links = links};
    options.network.queue_depth = 2;
    Ensemble ensemble(options);
    Summing sum(ensemble, "ring", 1000, Collective::broadcast);
    sum.start();
    const Result<Progress> progress = sum.parts[0].execution->poll();
    ASSERT_TRUE(progress.ok());
    EXPECT_EQ(progress.value(), Progress::moved);
    EXPECT_EQ(sum.parts[0].execution->poll().value(), Progress::blocked);
    EXPECT_THAT(sum.parts[0].execution->waits(), ElementsAre(Wait{Rank{1}, false})) << name_of(links);
  }
}

// All is handed over, but the wire still reads the caller's memory.
TEST(Waits, NameWhoseWireStillReads) {
  Ensemble ensemble({.nranks = Rank{2}, .links = LinkKind::put});
  Summing sum(ensemble, "ring", 10, Collective::broadcast);
  sum.start();
  EXPECT_EQ(sum.parts[0].execution->poll().value(), Progress::moved);
  EXPECT_EQ(sum.parts[0].execution->poll().value(), Progress::blocked);
  EXPECT_THAT(sum.parts[0].execution->waits(), ElementsAre(Wait{Rank{1}, false}));
}

}  // namespace
}  // namespace tutti
