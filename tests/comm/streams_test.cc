// Streams: order, asking, waiting, what follows what.
#include <atomic>

#include "ranks.h"

namespace tutti::test {
namespace {

using testing::StartsWith;

class Streams : public WorldTest {};

class OwnedStream {
 public:
  OwnedStream() { EXPECT_DONE(tuttiStreamCreate(&stream_)); }
  ~OwnedStream() { EXPECT_DONE(tuttiStreamDestroy(stream_)); }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  operator tuttiStream_t() const { return stream_; }  // NOLINT(google-explicit-constructor)

 private:
  tuttiStream_t stream_ = nullptr;
};

// Each operation reads what the one before it wrote.
TEST_P(Streams, RunInOrder) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    const OwnedStream stream;
    std::vector<double> values(3000, me.rank == 0 ? 1.0 : 0.0);
    double want = 1;
    for (int k = 0; k < 30; ++k) {
      EXPECT_DONE(tuttiBroadcast(values.data(), values.data(), values.size(), tuttiFloat64, k % me.n, me.comm, stream));
      EXPECT_DONE(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiFloat64, tuttiSum, me.comm, stream));
      want *= me.n;
    }
    EXPECT_DONE(tuttiStreamSynchronize(stream));
    EXPECT_EQ(tuttiStreamQuery(stream), tuttiSuccess);
    EXPECT_TRUE(values == std::vector<double>(values.size(), want));
  });
}

TEST_P(Streams, QueryTellsWhetherAllIsDone) {
  const Ranks ranks(n());
  std::atomic<bool> others_may_come{false};
  ranks.run([&](const Member& me) {
    const OwnedStream stream;
    EXPECT_EQ(tuttiStreamQuery(stream), tuttiSuccess);
    if (me.rank == 0) {
      EXPECT_DONE(tuttiBarrier(me.comm, stream));
      if (me.n > 1) {
        EXPECT_EQ(tuttiStreamQuery(stream), tuttiInProgress) << "nobody else has come";
      }
      others_may_come = true;
      others_may_come.notify_all();
    } else {
      others_may_come.wait(false);
      EXPECT_DONE(tuttiBarrier(me.comm, stream));
    }
    EXPECT_DONE(tuttiStreamSynchronize(stream));
    EXPECT_EQ(tuttiStreamQuery(stream), tuttiSuccess);
  });
}

TEST_P(Streams, DestroyWaits) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    std::vector<int32_t> values(200'000, 1);
    {
      const OwnedStream stream;
      for (int k = 0; k < 5; ++k)
        EXPECT_DONE(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiInt32, tuttiMax, me.comm, stream));
      EXPECT_DONE(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiInt32, tuttiSum, me.comm, stream));
    }
    EXPECT_TRUE(values == std::vector<int32_t>(values.size(), me.n));
  });
}

TEST_P(Streams, FinalizeAndDestroyOfTheCommunicatorWait) {
  for (const auto& end : {tuttiCommFinalize, tuttiCommDestroy}) {
    Ranks ranks(n());
    ranks.run([&](const Member& me) {
      const OwnedStream stream;
      std::vector<int32_t> values(100'000, 1);
      EXPECT_DONE(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiInt32, tuttiSum, me.comm, stream));
      EXPECT_DONE(end(me.comm));
      EXPECT_TRUE(values == std::vector<int32_t>(values.size(), me.n));
      if (end == tuttiCommDestroy) ranks.forget(me.rank);
    });
  }
}

// The order of the calls is the communicator's order, whatever stream they are on: ranks that use their streams
// differently still agree.
TEST_P(Streams, TwoOnOneCommunicatorKeepTheOrderOfCalls) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    const OwnedStream a, b;
    std::vector<int64_t> values(40);
    for (size_t k = 0; k < values.size(); ++k) {
      values[k] = me.rank + static_cast<int64_t>(k);
      const bool first = (k + static_cast<size_t>(me.rank)) % 3 == 0;
      const tuttiStream_t stream = first ? a : b;
      if (k % 2 == 0)
        EXPECT_DONE(tuttiAllReduce(&values[k], &values[k], 1, tuttiInt64, tuttiSum, me.comm, stream));
      else
        EXPECT_DONE(tuttiBroadcast(&values[k], &values[k], 1, tuttiInt64, 0, me.comm, stream));
    }
    EXPECT_DONE(tuttiStreamSynchronize(b));
    EXPECT_DONE(tuttiStreamSynchronize(a));
    for (size_t k = 0; k < values.size(); ++k) {
      const auto own = static_cast<int64_t>(k);
      EXPECT_EQ(values[k], k % 2 == 0 ? me.n * (me.n - 1) / 2 + me.n * own : own);
    }
  });
}

TEST_P(Streams, ABlockingCallComesAfterThoseBeforeIt) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    const OwnedStream stream;
    std::vector<int32_t> values(150'000, 1);
    for (int round = 0; round < 5; ++round) {
      EXPECT_DONE(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiInt32, tuttiSum, me.comm, stream));
      EXPECT_DONE(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiInt32, tuttiMax, me.comm, nullptr));
      EXPECT_EQ(values.front(), me.n);
      EXPECT_EQ(values.back(), me.n);
      EXPECT_DONE(tuttiStreamSynchronize(stream));
      values.assign(values.size(), 1);
    }
  });
}

// Two communicators, each with its own order, on one stream and on two.
TEST_P(Streams, TwoCommunicators) {
  const Ranks first(n());
  const Ranks second(n());
  first.run([&](const Member& me) {
    const OwnedStream a, b;
    int32_t x = 1, y = 2;
    for (int k = 0; k < 20; ++k) {
      EXPECT_DONE(tuttiAllReduce(&x, &x, 1, tuttiInt32, tuttiMax, me.comm, a));
      EXPECT_DONE(tuttiAllReduce(&y, &y, 1, tuttiInt32, tuttiMax, second[me.rank], k % 2 == 0 ? a : b));
    }
    EXPECT_DONE(tuttiStreamSynchronize(a));
    EXPECT_DONE(tuttiStreamSynchronize(b));
    EXPECT_EQ(x, 1);
    EXPECT_EQ(y, 2);
  });
}

// Several threads call on one communicator of one rank: every call is carried out, one after the other.
TEST(StreamErrors, DestroyWhileTheOpenGroupNeedsIt) {
  const Ranks ranks(1);
  ranks.run([](const Member& me) {
    tuttiStream_t stream = nullptr;
    ASSERT_DONE(tuttiStreamCreate(&stream));
    float value = 3;
    EXPECT_DONE(tuttiGroupStart());
    EXPECT_DONE(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, me.comm, stream));
    EXPECT_THAT(problem(tuttiStreamDestroy(stream)), testing::HasSubstr("open group"));
    EXPECT_DONE(tuttiGroupEnd());
    EXPECT_DONE(tuttiStreamDestroy(stream));
  });
}

TEST(StreamThreads, CallsFromSeveralThreadsTakeTurns) {
  const Environment environment;
  const Ranks ranks(1);
  in_threads(4, [&](int) {
    for (int k = 0; k < 100; ++k) {
      int32_t value = k, got = -1;
      EXPECT_DONE(tuttiAllReduce(&value, &got, 1, tuttiInt32, tuttiSum, ranks[0], nullptr));
      EXPECT_EQ(got, k);
    }
  });
}

// A wake-up lost at each turn costs 50 ms, the time after which waits look again: with that, these calls take longer than
// a test may.
TEST(StreamThreads, ManyCallsFromManyThreadsLoseNoWakeUp) {
  constexpr int kThreads = 4, kCalls = 1000;
  const Ranks ranks(3);
  ranks.run([](const Member& me) {
    in_threads(kThreads, [&](int) {
      std::vector<float> values(1000, 1.0F);
      for (int call = 0; call < kCalls; ++call)
        EXPECT_DONE(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiFloat32, tuttiMax, me.comm, nullptr));
    });
  });
}

TEST(StreamErrors, SynchronizeReportsAnErrorOnce) {
  const Environment environment;
  const Ranks ranks(2, kShortMs);
  const OwnedStream stream;
  EXPECT_DONE(tuttiBarrier(ranks[0], stream));  // rank 1 never comes
  EXPECT_THAT(problem(tuttiStreamSynchronize(stream)), StartsWith("timeout"));
  EXPECT_DONE(tuttiStreamSynchronize(stream));
  EXPECT_THAT(problem(tuttiBarrier(ranks[0], stream)), StartsWith("timeout"));
  EXPECT_THAT(problem(tuttiCommFinalize(ranks[0])), StartsWith("timeout"));
}

INSTANTIATE_TEST_SUITE_P(Worlds, Streams, testing::ValuesIn(worlds({1, 2, 3, 4})), world_name);

}  // namespace
}  // namespace tutti::test
