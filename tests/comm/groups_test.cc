// Groups: many calls as one, several communicators of one thread, nesting, errors.
#include "ranks.h"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class Groups : public WorldTest {};

TEST_P(Groups, SmallAllReducesGiveEachItsOwnResult) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    constexpr size_t kParts = 40;
    std::vector<std::vector<int32_t>> in, out;
    for (size_t k = 0; k < kParts; ++k) {
      in.emplace_back(k % 7 * 3, me.rank + static_cast<int32_t>(k));  // some of them empty
      out.emplace_back(in.back().size(), -1);
    }
    EXPECT_DONE(tuttiGroupStart());
    for (size_t k = 0; k < kParts; ++k) {
      void* recv = k % 2 == 0 ? out[k].data() : in[k].data();
      EXPECT_DONE(tuttiAllReduce(in[k].data(), recv, in[k].size(), tuttiInt32, tuttiSum, me.comm, nullptr));
    }
    EXPECT_THAT(out[2], testing::Each(-1)) << "nothing runs before tuttiGroupEnd";
    EXPECT_DONE(tuttiGroupEnd());
    for (size_t k = 0; k < kParts; ++k)
      EXPECT_THAT(k % 2 == 0 ? out[k] : in[k], testing::Each(me.n * (me.n - 1) / 2 + me.n * static_cast<int32_t>(k)));
  });
}

TEST_P(Groups, MixedTypesOperationsAndCollectives) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    int32_t sum = me.rank, largest = me.rank, told = me.rank == 0 ? 5 : 0;
    double total = 0.5;
    std::vector<int64_t> big(50'000, me.rank + 1);
    std::vector<int32_t> all(static_cast<size_t>(me.n));
    EXPECT_DONE(tuttiGroupStart());
    EXPECT_DONE(tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, me.comm, nullptr));
    EXPECT_DONE(tuttiAllReduce(&largest, &largest, 1, tuttiInt32, tuttiMax, me.comm, nullptr));
    EXPECT_DONE(tuttiAllReduce(&total, &total, 1, tuttiFloat64, tuttiSum, me.comm, nullptr));
    EXPECT_DONE(tuttiAllReduce(big.data(), big.data(), big.size(), tuttiInt64, tuttiSum, me.comm, nullptr));
    EXPECT_DONE(tuttiBroadcast(&told, &told, 1, tuttiInt32, 0, me.comm, nullptr));
    EXPECT_DONE(tuttiAllGather(&me.rank, all.data(), 1, tuttiInt32, me.comm, nullptr));
    EXPECT_DONE(tuttiBarrier(me.comm, nullptr));
    EXPECT_DONE(tuttiGroupEnd());
    EXPECT_EQ(sum, me.n * (me.n - 1) / 2);
    EXPECT_EQ(largest, me.n - 1);
    EXPECT_EQ(total, me.n * 0.5);
    EXPECT_THAT(big, testing::Each(me.n * (me.n + 1) / 2));
    EXPECT_EQ(told, 5);
    EXPECT_EQ(all.back(), me.n - 1);
  });
}

TEST_P(Groups, NestedOnesRunAtTheOutermostEnd) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    const int next = (me.rank + 1) % me.n, before = (me.rank + me.n - 1) % me.n;
    int32_t got = -1, sum = 1;
    EXPECT_DONE(tuttiGroupStart());
    EXPECT_DONE(tuttiGroupStart());
    EXPECT_DONE(tuttiSend(&me.rank, 1, tuttiInt32, next, me.comm, nullptr));
    EXPECT_DONE(tuttiGroupEnd());
    EXPECT_DONE(tuttiGroupStart());
    EXPECT_DONE(tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, me.comm, nullptr));
    EXPECT_DONE(tuttiGroupEnd());
    EXPECT_EQ(sum, 1);
    EXPECT_DONE(tuttiRecv(&got, 1, tuttiInt32, before, me.comm, nullptr));
    EXPECT_DONE(tuttiGroupEnd());
    EXPECT_EQ(got, before);
    EXPECT_EQ(sum, me.n);
  });
}

// One thread is all ranks: everything must run side by side.
TEST_P(Groups, OneThreadIsAllRanks) {
  std::vector<tuttiComm_t> comms(static_cast<size_t>(n()));
  ASSERT_DONE(tuttiCommInitAll(comms.data(), n(), nullptr));
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{150'000}}) {
    std::vector<std::vector<int32_t>> values, gathered;
    for (int r = 0; r < n(); ++r) {
      values.emplace_back(count, r + 1);
      gathered.emplace_back(static_cast<size_t>(n()), -1);
    }
    EXPECT_DONE(tuttiGroupStart());
    for (size_t r = 0; r < comms.size(); ++r) {
      const int next = (static_cast<int>(r) + 1) % n();
      EXPECT_DONE(tuttiAllReduce(values[r].data(), values[r].data(), count, tuttiInt32, tuttiSum, comms[r], nullptr));
      EXPECT_DONE(tuttiSend(&values[r][0], 0, tuttiInt32, next, comms[r], nullptr));
    }
    for (size_t r = 0; r < comms.size(); ++r) {
      int rank = -1;
      EXPECT_DONE(tuttiCommUserRank(comms[r], &rank));
      EXPECT_EQ(rank, static_cast<int>(r));
      const int before = (rank + n() - 1) % n();
      EXPECT_DONE(tuttiRecv(&values[r][0], 0, tuttiInt32, before, comms[r], nullptr));
    }
    EXPECT_DONE(tuttiGroupEnd());
    const int32_t sum = n() * (n() + 1) / 2;
    for (const auto& mine : values) EXPECT_TRUE(mine == std::vector<int32_t>(count, sum));
  }
  for (tuttiComm_t comm : comms) EXPECT_DONE(tuttiCommDestroy(comm));
}

TEST_P(Groups, OneThreadMakesAllRanks) {
  const tuttiUniqueId id = unique_id();
  std::vector<tuttiComm_t> comms(static_cast<size_t>(n()));
  EXPECT_DONE(tuttiGroupStart());
  for (int r = 0; r < n(); ++r) EXPECT_DONE(tuttiCommInitRank(&comms[static_cast<size_t>(r)], n(), id, r));
  EXPECT_DONE(tuttiGroupEnd());
  std::vector<tuttiComm_t> halves(comms.size());
  EXPECT_DONE(tuttiGroupStart());
  for (size_t r = 0; r < comms.size(); ++r)
    EXPECT_DONE(tuttiCommSplit(comms[r], static_cast<int>(r % 2), 0, &halves[r], nullptr));
  EXPECT_DONE(tuttiGroupEnd());
  for (size_t r = 0; r < comms.size(); ++r) {
    int rank = -1;
    EXPECT_DONE(tuttiCommUserRank(halves[r], &rank));
    EXPECT_EQ(rank, static_cast<int>(r / 2));
    EXPECT_DONE(tuttiCommDestroy(halves[r]));
    EXPECT_DONE(tuttiCommDestroy(comms[r]));
  }
}

TEST_P(Groups, OnStreams) {
  const Ranks ranks(n());
  const Ranks others(n());
  ranks.run([&](const Member& me) {
    tuttiStream_t streams[2];
    for (tuttiStream_t& stream : streams) ASSERT_DONE(tuttiStreamCreate(&stream));
    const tuttiComm_t other = others[me.rank];
    for (int round = 0; round < 20; ++round) {
      std::vector<int32_t> a(1000, 1), b(70'000, 2);
      int32_t c = 3;
      EXPECT_DONE(tuttiGroupStart());
      EXPECT_DONE(tuttiAllReduce(a.data(), a.data(), a.size(), tuttiInt32, tuttiSum, me.comm, streams[0]));
      EXPECT_DONE(tuttiAllReduce(b.data(), b.data(), b.size(), tuttiInt32, tuttiSum, other, streams[1]));
      EXPECT_DONE(tuttiAllReduce(&c, &c, 1, tuttiInt32, tuttiSum, me.comm, streams[0]));
      EXPECT_DONE(tuttiGroupEnd());
      for (tuttiStream_t stream : streams) EXPECT_DONE(tuttiStreamSynchronize(stream));
      EXPECT_TRUE(a == std::vector<int32_t>(a.size(), me.n));
      EXPECT_TRUE(b == std::vector<int32_t>(b.size(), 2 * me.n));
      EXPECT_EQ(c, 3 * me.n);
    }
    for (tuttiStream_t stream : streams) EXPECT_DONE(tuttiStreamDestroy(stream));
  });
}

// The error comes from the call and again from the end; none of the group's calls has been made.
TEST_P(Groups, AWrongCallCallsOffItsGroup) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    int32_t value = 1;
    EXPECT_DONE(tuttiGroupStart());
    EXPECT_DONE(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, me.comm, nullptr));
    const std::string said = problem(tuttiAllReduce(nullptr, &value, 1, tuttiInt32, tuttiSum, me.comm, nullptr));
    EXPECT_THAT(said, StartsWith("invalid argument: send is NULL"));
    EXPECT_DONE(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, me.comm, nullptr));
    EXPECT_EQ(problem(tuttiGroupEnd()), said);
    EXPECT_EQ(value, 1);
    // The next group starts afresh.
    EXPECT_DONE(tuttiGroupStart());
    EXPECT_DONE(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, me.comm, nullptr));
    EXPECT_DONE(tuttiGroupEnd());
    EXPECT_EQ(value, me.n);
    expect_usable(me);
  });
}

TEST(GroupErrors, EndWithoutStart) {
  const Environment environment;
  EXPECT_THAT(problem(tuttiGroupEnd()), HasSubstr("tuttiGroupStart"));
  EXPECT_DONE(tuttiGroupStart());
  EXPECT_DONE(tuttiGroupEnd());
  EXPECT_THAT(problem(tuttiGroupEnd()), StartsWith("invalid usage"));
}

TEST(GroupErrors, TwoStreamsForOneCommunicator) {
  const Environment environment;
  const Ranks ranks(2);
  ranks.run([](const Member& me) {
    tuttiStream_t streams[2];
    for (tuttiStream_t& stream : streams) ASSERT_DONE(tuttiStreamCreate(&stream));
    int32_t values[2] = {1, 1};
    EXPECT_DONE(tuttiGroupStart());
    for (int i = 0; i < 2; ++i)
      EXPECT_DONE(tuttiAllReduce(&values[i], &values[i], 1, tuttiInt32, tuttiSum, me.comm, streams[i]));
    EXPECT_THAT(problem(tuttiGroupEnd()), testing::AllOf(StartsWith("invalid usage"), HasSubstr("two streams")));
    for (tuttiStream_t stream : streams) EXPECT_DONE(tuttiStreamDestroy(stream));
    EXPECT_THAT(values, testing::Each(1));
    expect_usable(me);
  });
}

TEST(GroupErrors, FinalizeIsForAfterTheGroup) {
  const Environment environment;
  const Ranks ranks(1);
  float value = 1;
  const auto reduce = [&] { return tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, ranks[0], nullptr); };
  EXPECT_DONE(tuttiGroupStart());
  EXPECT_DONE(reduce());
  EXPECT_THAT(problem(tuttiCommFinalize(ranks[0])), AllOf(StartsWith("invalid usage"), HasSubstr("tuttiGroupEnd")));
  EXPECT_DONE(tuttiGroupEnd());
  EXPECT_DONE(tuttiCommFinalize(ranks[0]));
  EXPECT_THAT(problem(reduce()), AllOf(StartsWith("invalid usage"), HasSubstr("tuttiCommFinalize")));
  EXPECT_DONE(tuttiCommFinalize(ranks[0]));
}

TEST(GroupErrors, DestroyWaitsForTheEndOfTheGroup) {
  const Ranks ranks(1);
  float value = 1;
  ASSERT_DONE(tuttiGroupStart());
  ASSERT_DONE(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, ranks[0], nullptr));
  EXPECT_THAT(problem(tuttiCommDestroy(ranks[0])), AllOf(StartsWith("invalid usage"), HasSubstr("tuttiGroupEnd")));
  EXPECT_DONE(tuttiGroupEnd());
  expect_usable(ranks);
}

TEST(GroupErrors, AbortCallsOffTheGroup) {
  Ranks ranks(1);
  float value = 1;
  ASSERT_DONE(tuttiGroupStart());
  ASSERT_DONE(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, ranks[0], nullptr));
  EXPECT_DONE(tuttiCommAbort(ranks[0]));
  ranks.forget(0);
  EXPECT_THAT(problem(tuttiGroupEnd()), HasSubstr(") aborted the communicator"));
  // The next group starts empty.
  ASSERT_DONE(tuttiGroupStart());
  EXPECT_DONE(tuttiGroupEnd());
}

// A rank that cannot be made takes the group's operations with it, and leaves nothing for the next group.
TEST(GroupErrors, AMeetingThatFails) {
  const Environment environment;
  const Ranks ranks(1);
  const tuttiUniqueId id = unique_id();
  const tuttiConfig_t config = config_of(kShortMs);
  tuttiComm_t lonely = nullptr;
  int32_t value = 1;
  EXPECT_DONE(tuttiGroupStart());
  EXPECT_DONE(tuttiCommInitRankConfig(&lonely, 2, id, 0, &config));
  EXPECT_DONE(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiAvg, ranks[0], nullptr));
  EXPECT_THAT(problem(tuttiGroupEnd()), testing::AllOf(StartsWith("timeout"), HasSubstr("rank 1")));
  EXPECT_EQ(lonely, nullptr);
  EXPECT_DONE(tuttiGroupStart());
  EXPECT_DONE(tuttiGroupEnd());
  expect_usable(ranks);
}

INSTANTIATE_TEST_SUITE_P(Worlds, Groups, testing::ValuesIn(worlds({1, 2, 3, 4})), world_name);

}  // namespace
}  // namespace tutti::test
