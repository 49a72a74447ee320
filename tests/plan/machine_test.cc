// The stepper: decoding, walking, and what a StepMachine that blocks sees.
#include "plan/machine.h"

#include <gtest/gtest.h>

#include "plan/builder.h"

namespace tutti {
namespace {

TEST(Walk, GoesRoundInBothDirections) {
  EXPECT_EQ(walk({1, 1}, 0, 4), 1u);
  EXPECT_EQ(walk({1, 1}, 3, 4), 0u);
  EXPECT_EQ(walk({1, -1}, 2, 4), 3u);
  EXPECT_EQ(walk({0, -3}, 1000000, 7), (7 - 3000000 % 7) % 7);
  EXPECT_EQ(walk({2, 2147483647}, 4000000, 5), (2 + 2147483647LL * 4000000) % 5);
  EXPECT_EQ(walk({0, 5}, 3, 1), 0u);
}

Plan two_lanes() {
  PlanBuilder plan(6, 2);
  LaneBuilder a = plan.lane();
  for (uint32_t r = 1; r < 4; ++r) a.peer(Rank{r}, ChannelId{0});
  a.add(move().recv(PeerSlot{2}, 2).load(Buffer::in, -1, -2).local_pos(1).store(Buffer::scratch, 3, 1).repeat(3, 1));
  a.add(move().load(Buffer::scratch, 1).send(PeerSlot{1}).span(2).complete());
  plan.lane().add(move().load(Buffer::in, 0).store(Buffer::out, 0));
  return std::move(plan).build();
}

TEST(Decode, AdvancesChunksAndSlotsByIteration) {
  const Plan plan = two_lanes();
  const Lane& lane = plan.lanes[0];
  const Step first = decode(plan, lane, {0, 0});
  EXPECT_EQ(first.recv_first, 2);
  EXPECT_EQ(first.recv_count, 2);
  EXPECT_EQ(first.load, 5u);   // -1 mod 6
  EXPECT_EQ(first.store, 1u);  // 3 mod the 2 scratch chunks
  EXPECT_EQ(first.local_pos, 1);
  EXPECT_FALSE(first.complete);
  EXPECT_TRUE(first.sized_by_load());
  const Step third = decode(plan, lane, {0, 2});
  EXPECT_EQ(third.recv_first, 1);  // slot 2 + 2 of 3 peers
  EXPECT_EQ(third.load, 1u);
  EXPECT_EQ(third.store, 1u);
  EXPECT_EQ(slot_after(lane, third.recv_first, 2), 0);
  const Step last = decode(plan, lane, {1, 0});
  EXPECT_EQ(last.span, 2);
  EXPECT_TRUE(last.complete);
}

TEST(Step, TheStoreSizesAMessageThatOnlyArrives) {
  Step step;
  EXPECT_TRUE(step.sized_by_load());
  step.store_to = Buffer::out;
  EXPECT_FALSE(step.sized_by_load());
  step.load_from = Buffer::in;
  EXPECT_TRUE(step.sized_by_load());
}

// Blocks at every second try.
struct Hesitant {
  int tries = 0, steps = 0;
  bool try_step(LaneId, const Lane&, const Step&) {
    if (++tries % 2 == 0) return false;
    ++steps;
    return true;
  }
};

TEST(RunLane, SaysWhetherItMovedBlockedOrEnded) {
  const Plan plan = two_lanes();
  Hesitant machine;
  Cursor cursor;
  EXPECT_EQ(run_lane(plan, LaneId{0}, cursor, machine), Progress::moved);
  EXPECT_EQ(cursor, (Cursor{0, 1}));
  EXPECT_EQ(run_lane(plan, LaneId{0}, cursor, machine), Progress::moved);
  EXPECT_EQ(run_lane(plan, LaneId{0}, cursor, machine), Progress::moved);
  EXPECT_EQ(cursor, (Cursor{1, 0}));
  machine.tries = 1;
  EXPECT_EQ(run_lane(plan, LaneId{0}, cursor, machine), Progress::blocked);
  EXPECT_EQ(cursor, (Cursor{1, 0}));
  EXPECT_EQ(run_lane(plan, LaneId{0}, cursor, machine), Progress::finished);
  EXPECT_TRUE(at_end(plan.lanes[0], cursor));
  EXPECT_EQ(machine.steps, 4);
  EXPECT_EQ(run_lane(plan, LaneId{0}, cursor, machine), Progress::finished);
}

TEST(Builder, LeavesOutMovesOfNoIterationsAndKnowsItsPeers) {
  PlanBuilder plan(4);
  LaneBuilder lane = plan.lane();
  EXPECT_EQ(lane.peer(Rank{3}, ChannelId{0}), 0);
  EXPECT_EQ(lane.peer(Rank{3}, ChannelId{1}), 1);
  EXPECT_EQ(lane.peer(Rank{3}, ChannelId{0}), 0);
  EXPECT_EQ(lane.new_peer(Rank{2}, ChannelId{0}), 2);
  lane.add(move().load(Buffer::in, 0).send(PeerSlot{0}).repeat(0));
  lane.add(move().load(Buffer::in, 9, -9).store(Buffer::out, -5));
  const Plan built = std::move(plan).build();
  ASSERT_EQ(built.lanes[0].moves.size(), 1u);
  EXPECT_EQ(built.lanes[0].moves[0].load, (ChunkWalk{1, -9}));
  EXPECT_EQ(built.lanes[0].moves[0].store, (ChunkWalk{3, 0}));
}

TEST(Builder, RanksGoRoundTheCircle) {
  EXPECT_EQ(rank_after(Rank{0}, -1, 5), 4u);
  EXPECT_EQ(rank_after(Rank{3}, 4, 5), 2u);
  EXPECT_EQ(rank_after(Rank{0}, -13, 5), 2u);
}

}  // namespace
}  // namespace tutti
