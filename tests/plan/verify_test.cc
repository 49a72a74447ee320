// What the verifier refuses, and how it says so. The plans are written as text: small, and wrong in one way each.
#include "plan/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/dump.h"
#include "tests/plan/plan_fixture.h"

namespace tutti {
namespace {

using testing::HasSubstr;

constexpr Shape kAllReduce{Collective::all_reduce, Rank{2}, Rank{0}, 1};
constexpr Shape kBroadcast{Collective::broadcast, Rank{2}, Rank{0}, 1};

std::string refusal(const Shape& shape, std::string_view text, const VerifyOptions& options = {}) {
  const Result<std::vector<Plan>> plans = parse_plans(text);
  EXPECT_TRUE(plans.ok()) << plans.status().c_str();
  if (!plans.ok()) return {};
  const Status status = verify(shape, plans.value(), options);
  EXPECT_TRUE(status.ok() || status.code() == tuttiInvalidUsage || status.code() == tuttiInvalidArgument);
  return std::string(status.message());
}

// A right one, from which the wrong ones below differ.
TEST(Verify, AcceptsAnExchange) {
  EXPECT_EQ(refusal(kAllReduce, R"(
rank 0
plan chunks 1
lane peers 1:0
  move load in[0] send 0
  move recv 0 load in[0] store out[0] complete
rank 1
plan chunks 1
lane peers 0:0
  move load in[0] send 0
  move recv 0 load in[0] at 1 store out[0] complete
)"),
            "success");
}

TEST(Verify, RefusesFoldsInDifferentOrders) {
  EXPECT_THAT(refusal(kAllReduce, R"(
rank 0
plan chunks 1
lane peers 1:0
  move load in[0] send 0
  move recv 0 load in[0] store out[0] complete
rank 1
plan chunks 1
lane peers 0:0
  move load in[0] send 0
  move recv 0 load in[0] store out[0] complete
)"),
              HasSubstr("ranks 0 and 1 fold chunk 0 in different orders"));
}

TEST(Verify, RefusesAMissingCompletion) {
  EXPECT_THAT(refusal(kAllReduce, R"(
rank 0
plan chunks 1
lane peers 1:0
  move load in[0] send 0
  move recv 0 load in[0] store out[0] complete
rank 1
plan chunks 1
lane peers 0:0
  move load in[0] send 0
  move recv 0 load in[0] at 1 store out[0]
)"),
              HasSubstr("rank 1: chunk 0 of out is not the completed reduction"));
}

TEST(Verify, NamesTheLaneThatWaitsForEver) {
  EXPECT_EQ(
      refusal(kAllReduce, R"(
rank 0
plan chunks 1
lane peers 1:0
  move recv 0 load in[0] store out[0] send 0 complete
rank 1
plan chunks 1
lane peers 0:0
  move recv 0 load in[0] store out[0] send 0 complete
)"),
      "deadlock with FIFOs of depth 1: rank 0, lane 0, move 0, iteration 0 waits for a message from the FIFO from "
      "rank 1 to rank 0 on channel 0; 2 lanes are stuck");
}

// Both send two before they receive: two messages of room would do, but plans are proved at one.
TEST(Verify, RefusesWhatNeedsDeepFifos) {
  EXPECT_THAT(refusal({Collective::all_gather, Rank{2}, Rank{0}, 2}, R"(
rank 0
plan chunks 4
lane peers 1:0
  move load in[0+1] store out[0+1] send 0 repeat 2
  move recv 0 store out[2+1] repeat 2
rank 1
plan chunks 4
lane peers 0:0
  move load in[0+1] store out[2+1] send 0 repeat 2
  move recv 0 store out[0+1] repeat 2
)"),
              HasSubstr("move 0, iteration 1 waits for room in the FIFO from rank 0 to rank 1"));
}

TEST(Verify, RefusesLeftoverMessages) {
  EXPECT_THAT(refusal(kBroadcast, R"(
rank 0
plan chunks 1
lane peers 1:0 1:7
  move load in[0] store out[0] send 0 count 2
rank 1
plan chunks 1
lane peers 0:0
  move recv 0 store out[0]
)"),
              HasSubstr("1 messages are left over in the FIFO from rank 0 to rank 1 on channel 7"));
}

TEST(Verify, RefusesTwoLanesAtOneEnd) {
  EXPECT_THAT(refusal(kBroadcast, R"(
rank 0
plan chunks 2
lane peers 1:0
  move load in[0] store out[0] send 0
lane peers 1:0
  move load in[1] store out[1] send 0
rank 1
plan chunks 2
lane peers 0:0
  move recv 0 store out[0+1] repeat 2
)"),
              HasSubstr("a FIFO has one lane at each end"));
}

TEST(Verify, RefusesSizesThatDiffer) {
  EXPECT_THAT(refusal(kBroadcast, R"(
rank 0
plan chunks 2
lane peers 1:0
  move load in[0+1] store out[0+1] send 0 repeat 2
rank 1
plan chunks 2
lane peers 0:0
  move recv 0 store out[1-1] repeat 2
)"),
              HasSubstr("as large as 1.. are expected"));
}

TEST(Verify, RefusesMemoryThatIsNotThere) {
  const auto with_second = [](std::string_view move) {
    return fmt::format(
        "rank 0\nplan chunks 2\nlane peers 1:0\n  move load in[0] store out[0] send 0 span 2\n"
        "rank 1\nplan chunks 2 scratch 1\nlane peers 0:0\n  {}\n",
        move);
  };
  EXPECT_THAT(refusal(kBroadcast, with_second("move load in[0] store out[0]")), HasSubstr("only the root has"));
  EXPECT_THAT(refusal(kBroadcast, with_second("move recv 0 store out[2] span 2")), HasSubstr("is not below 2"));
  EXPECT_THAT(refusal(kBroadcast, with_second("move recv 0 store in[0] span 2")), HasSubstr("the caller's"));
  EXPECT_THAT(refusal(kBroadcast, with_second("move load scratch[0] store out[0]")), HasSubstr("nobody has written"));
  EXPECT_THAT(refusal(kBroadcast, with_second("move recv 0 store out[0] span 3")), HasSubstr("meets itself"));
  EXPECT_THAT(refusal(kBroadcast, with_second("move recv 1 store out[0] span 2")), HasSubstr("slot 1 is not below"));
  EXPECT_THAT(refusal(kBroadcast, with_second("move recv 0")), HasSubstr("goes nowhere"));
  EXPECT_THAT(refusal(kBroadcast, with_second("move store out[0]")), HasSubstr("no operand"));
}

TEST(Verify, RefusesStoresThatNobodyReads) {
  constexpr std::string_view kText = R"(
rank 0
plan chunks 1
lane peers 1:0
  move load in[0] store out[0] send 0
rank 1
plan chunks 1 scratch 1
lane peers 0:0
  move recv 0 store out[0]
  move load out[0] store )";
  EXPECT_THAT(refusal(kBroadcast, std::string(kText) + "scratch[0]\n"), HasSubstr("of scratch is never read"));
  EXPECT_THAT(refusal(kBroadcast, std::string(kText) + "out[0] repeat 2\n"), HasSubstr("success"));
  EXPECT_THAT(refusal(kBroadcast, std::string(kText) + "scratch[0] repeat 2\n"), HasSubstr("overwrites chunk 0"));
}

// The second lane reads in[0], which in place is the out[0] that the first lane writes.
constexpr std::string_view kRacing = R"(
rank 0
plan chunks 1
lane peers 1:0 1:1
  move load in[0] send 0
  move recv 1 load in[0] store out[0] complete
rank 1
plan chunks 1
lane peers 0:0
  move recv 0 load in[0] at 1 store out[0] complete
lane peers 0:1
  move load in[0] send 0
)";

TEST(Verify, FindsRacesBetweenLanesInPlace) {
  EXPECT_EQ(refusal(kAllReduce, kRacing), "success");
  EXPECT_THAT(refusal(kAllReduce, kRacing, {.in_place = true}),
              AllOf(HasSubstr("rank 1, lane 0, move 0"), HasSubstr("rank 1, lane 1, move 0"),
                    HasSubstr("no message orders the two")));
}

// Rank 1's result may be written to rank 0's out[0], where rank 2's message is still to be loaded from.
constexpr std::string_view kGrantedTooEarly = R"(
rank 0
plan chunks 1
lane peers 1:0 2:0
  move load in[0] store out[0]
  move load out[0] send 0
  move load out[0] send 1
  move recv 0 store out[0]
rank 1
plan chunks 1
lane peers 0:0 2:0
  move load in[0] send 1
  move recv 0 count 2 load in[0] at 1 store out[0] send 0 complete
rank 2
plan chunks 1
lane peers 0:0 1:0
  move load in[0] send 1
  move recv 0 count 2 load in[0] at 2 store out[0] complete
)";

// The same, but in place rank 0 stores to its in[0], which it has lent and nobody has read for sure.
constexpr std::string_view kLentTooLong = R"(
rank 0
plan chunks 1
lane peers 1:0 1:1
  move load in[0] send 0
  move load in[0] send 1
  move recv 0 store out[0]
rank 1
plan chunks 1
lane peers 0:0
  move recv 0 send 0
lane peers 0:1
  move recv 0 store out[0]
)";

TEST(Verify, FindsRacesOfMessagesThatAreLentAndGranted) {
  EXPECT_THAT(refusal({Collective::all_reduce, Rank{3}, Rank{0}, 1}, kGrantedTooEarly),
              AllOf(HasSubstr("lent and granted"), HasSubstr("rank 1, lane 0, move 1"),
                    HasSubstr("rank 0, lane 0, move 2"), HasSubstr("no message orders the two")));
  const Shape broadcast{Collective::broadcast, Rank{2}, Rank{0}, 1};
  EXPECT_EQ(refusal(broadcast, kLentTooLong), "success");
  EXPECT_THAT(refusal(broadcast, kLentTooLong, {.in_place = true}),
              AllOf(HasSubstr("lent and granted"), HasSubstr("rank 0"), HasSubstr("no message orders the two")));
}

TEST(Verify, OrdersLanesByMessagesOnly) {
  // Lane 1 stores what lane 0 loads later, and nothing tells lane 0 that it has.
  constexpr std::string_view kText = R"(
rank 0
plan chunks 1
lane peers 0:3
  move load in[0] store out[0]{}
lane peers 0:3
  {}
)";
  const Shape alone{Collective::broadcast, Rank{1}, Rank{0}, 1};
  EXPECT_THAT(refusal(alone, fmt::format(kText, "", "move load out[0] store out[0]")), HasSubstr("no message orders"));
  EXPECT_EQ(refusal(alone, fmt::format(kText, " send 0", "move recv 0 store out[0]")),
            "rank 0, lane 1, move 0, iteration 0: it overwrites chunk 0, whose last store nobody has read");
  EXPECT_EQ(refusal(alone, R"(
rank 0
plan chunks 1
lane peers 0:3
  move load in[0] send 0
lane peers 0:3
  move recv 0 store out[0]
)"),
            "success");
}

TEST(Verify, LanesMayNotShareScratchEvenInOrder) {
  EXPECT_THAT(refusal({Collective::broadcast, Rank{1}, Rank{0}, 1}, R"(
rank 0
plan chunks 2 scratch 2
lane peers 0:0
  move load in[1] store scratch[1]
  move load in[0] send 0
lane peers 0:0
  move recv 0 store out[0]
  move load scratch[1] store out[1]
)"),
              HasSubstr("lanes may not share scratch"));
}

TEST(Verify, WantsAPlanOfEveryRank) {
  EXPECT_THAT(refusal(kAllReduce, "plan chunks 1\nlane peers\n  move load in[0] store out[0] complete\n"),
              HasSubstr("1 plans were given for 2 ranks"));
}

TEST(Verify, AMessageToOneselfIsAnOrdinaryMessage) {
  // send and recv with oneself, as two lanes of one rank.
  const Algorithm* send = find_algorithm("direct", Collective::send);
  const Algorithm* recv = find_algorithm("direct", Collective::recv);
  const Shape self{Collective::send, Rank{1}, Rank{0}, 1};
  Plan plan = send->plan(self, Rank{0});
  plan.lanes.push_back(recv->plan(self, Rank{0}).lanes[0]);
  const Status status = verify({Collective::broadcast, Rank{1}, Rank{0}, 1}, std::vector<Plan>{plan}, {});
  EXPECT_TRUE(status.ok()) << status.c_str();
}

}  // namespace
}  // namespace tutti
