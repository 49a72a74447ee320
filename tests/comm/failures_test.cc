// Ranks that do not come, leave, or abort: the others get an error that names them; and what can be done afterwards.
#include <atomic>

#include "ranks.h"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

std::string name_of(int rank) { return "rank " + std::to_string(rank) + " (host"; }

class Failures : public WorldTest {
 protected:
  int absent() const { return n() - 1; }
};

tuttiResult_t all_reduce(tuttiComm_t comm, size_t count = 50'000) {
  std::vector<float> values(count, 1);
  return tuttiAllReduce(values.data(), values.data(), count, tuttiFloat32, tuttiSum, comm, nullptr);
}

// By all, when all wait for it; in a ring, only its neighbour would.
TEST_P(Failures, ARankThatNeverCallsIsNamed) {
  environment_.set("TUTTI_ALGO", "all_pairs");
  const Ranks ranks(n(), kShortMs);
  const std::vector<std::string> texts =
      ranks.each([&](const Member& me) { return me.rank == absent() ? "" : problem(all_reduce(me.comm)); });
  for (int r = 0; r < n() - 1; ++r)
    EXPECT_THAT(texts[static_cast<size_t>(r)],
                AllOf(StartsWith("timeout"), HasSubstr(name_of(absent())), HasSubstr("all_reduce of 50000 float")));
  EXPECT_THAT(problem(all_reduce(ranks[absent()])), StartsWith("timeout")) << "the absent rank is told too";
}

TEST_P(Failures, AMessageThatNeverComesIsNamed) {
  const Ranks ranks(n(), kShortMs);
  int32_t value;
  EXPECT_THAT(problem(tuttiRecv(&value, 1, tuttiInt32, absent(), ranks[0], nullptr)),
              AllOf(StartsWith("timeout"), HasSubstr(name_of(absent())), HasSubstr("send/recv of 1 int32")));
}

// More than any buffer between the two holds.
TEST_P(Failures, AMessageThatNobodyTakesIsNamed) {
  const Ranks ranks(n(), kShortMs);
  const std::vector<int32_t> values(8'000'000);
  EXPECT_THAT(problem(tuttiSend(values.data(), values.size(), tuttiInt32, absent(), ranks[0], nullptr)),
              AllOf(StartsWith("timeout"), HasSubstr(name_of(absent())), HasSubstr("send/recv")));
}

TEST_P(Failures, ARankThatLeavesEarlyIsNamed) {
  Ranks ranks(n());
  const std::vector<std::string> texts = ranks.each([&](const Member& me) -> std::string {
    expect_usable(me);
    if (me.rank != absent()) return problem(all_reduce(me.comm));
    ranks.destroy(me.rank);
    return "";
  });
  for (int r = 0; r < n() - 1; ++r)
    EXPECT_THAT(texts[static_cast<size_t>(r)], AllOf(StartsWith("remote error"), HasSubstr(name_of(absent()))));
}

// Leaving is no error to those who need nothing from the leaver.
TEST_P(Failures, ARankThatIsDoneMayLeave) {
  Ranks ranks(n());
  std::atomic<int> gone{0};
  ranks.run([&](const Member& me) {
    expect_usable(me);
    if (me.rank == absent()) {
      ranks.destroy(me.rank);
      gone = 1;
      gone.notify_all();
      return;
    }
    gone.wait(0);
    int32_t value = me.rank;
    for (int k = 0; k < 3 && me.n > 2; ++k) {
      if (me.rank == 0) EXPECT_DONE(tuttiSend(&value, 1, tuttiInt32, 1, me.comm, nullptr));
      if (me.rank == 1) EXPECT_DONE(tuttiRecv(&value, 1, tuttiInt32, 0, me.comm, nullptr));
    }
    EXPECT_DONE(tuttiCommFinalize(me.comm));
  });
}

// The blocked call returns, in its own thread; the others hear who it was. That rank 1 has got the message shows that
// rank 0 is inside its call.
TEST_P(Failures, AbortWhileAnotherThreadIsBlocked) {
  Ranks ranks(n());
  const std::vector<std::string> texts = ranks.each([&](const Member& me) {
    int32_t value = 1, never = 0;
    if (me.rank == 0) {
      EXPECT_DONE(tuttiGroupStart());
      EXPECT_DONE(tuttiSend(&value, 1, tuttiInt32, 1, me.comm, nullptr));
      EXPECT_DONE(tuttiRecv(&never, 1, tuttiInt32, 1, me.comm, nullptr));
      return problem(tuttiGroupEnd());
    }
    if (me.rank == 1) {
      EXPECT_DONE(tuttiRecv(&value, 1, tuttiInt32, 0, me.comm, nullptr));
      EXPECT_DONE(tuttiCommAbort(ranks[0]));
      ranks.forget(0);
    }
    return problem(tuttiBarrier(me.comm, nullptr));
  });
  EXPECT_THAT(texts, Each(AllOf(StartsWith("remote error"), HasSubstr("rank 0"), HasSubstr("aborted"))));
}

// The call is under way when Abort comes: a stream holds it, and Query says so.
TEST_P(Failures, AbortEndsWhatIsUnderWay) {
  Ranks ranks(n());
  tuttiStream_t stream;
  ASSERT_DONE(tuttiStreamCreate(&stream));
  std::vector<float> values(50'000, 1);
  EXPECT_DONE(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiFloat32, tuttiSum, ranks[0], stream));
  EXPECT_DONE(tuttiBarrier(ranks[0], stream));
  EXPECT_EQ(tuttiStreamQuery(stream), tuttiInProgress);
  EXPECT_DONE(tuttiCommAbort(ranks[0]));
  ranks.forget(0);
  EXPECT_THAT(problem(tuttiStreamSynchronize(stream)), AllOf(StartsWith("remote error"), HasSubstr("rank 0 (host"), HasSubstr(") aborted")));
  EXPECT_DONE(tuttiStreamDestroy(stream));
  for (int r = 1; r < n(); ++r)
    EXPECT_THAT(problem(all_reduce(ranks[r])),
                AllOf(StartsWith("remote error"), HasSubstr(name_of(0)), HasSubstr("aborted")));
}

// Errors are kept: every later call says the same, at once, and GetAsyncError does not block.
TEST_P(Failures, LaterCallsReturnTheFirstError) {
  const Ranks ranks(n(), kShortMs);
  const std::string first = problem(all_reduce(ranks[0]));
  EXPECT_THAT(first, StartsWith("timeout"));
  tuttiResult_t latched = tuttiSuccess;
  EXPECT_DONE(tuttiCommGetAsyncError(ranks[0], &latched));
  EXPECT_EQ(latched, tuttiTimeout);
  EXPECT_EQ("timeout: " + std::string(tuttiGetLastError(ranks[0])), first);
  int32_t value = 0;
  tuttiComm_t part = nullptr;
  EXPECT_EQ(problem(all_reduce(ranks[0])), first);
  EXPECT_EQ(problem(tuttiBarrier(ranks[0], nullptr)), first);
  EXPECT_EQ(problem(tuttiSend(&value, 1, tuttiInt32, 1, ranks[0], nullptr)), first);
  EXPECT_EQ(problem(tuttiCommSplit(ranks[0], 0, 0, &part, nullptr)), first);
  EXPECT_EQ(problem(tuttiCommFinalize(ranks[0])), first);
  EXPECT_THAT(problem(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, nullptr, nullptr)),
              StartsWith("invalid argument"));
  EXPECT_EQ("timeout: " + std::string(tuttiGetLastError(ranks[0])), first) << "a wrong call does not hide it";
}

// Asking is enough: no call of this rank's has to wait for it to hear of the others' errors.
TEST_P(Failures, OfOthersAreHeardByAsking) {
  Ranks ranks(n());
  EXPECT_DONE(tuttiCommAbort(ranks[1]));
  ranks.forget(1);
  tuttiResult_t error = tuttiSuccess;
  // The hub's word takes its time; the test's own limit ends this should it never come.
  while (error == tuttiSuccess) ASSERT_DONE(tuttiCommGetAsyncError(ranks[0], &error));
  EXPECT_EQ(error, tuttiRemoteError);
  EXPECT_THAT(tuttiGetLastError(ranks[0]), AllOf(HasSubstr(name_of(1)), HasSubstr("aborted")));
}

// The failure of one communicator is none of another's.
TEST_P(Failures, StayInTheirCommunicator) {
  const Ranks bad(n(), kShortMs);
  const Ranks good(n());
  EXPECT_THAT(problem(all_reduce(bad[0])), StartsWith("timeout"));
  expect_usable(good);
}

INSTANTIATE_TEST_SUITE_P(Worlds, Failures, testing::ValuesIn(worlds({2, 3, 4})), world_name);

// Without a peer an operation always finishes; with a dead parent the children still work.
TEST(FailuresOfParents, ChildrenAreTheirOwn) {
  const Environment environment;
  const Ranks ranks(3, kShortMs);
  std::vector<tuttiComm_t> children(3);
  const tuttiConfig_t config = config_of(kPatienceMs);
  ranks.run([&](const Member& me) {
    EXPECT_DONE(tuttiCommSplit(me.comm, 0, 0, &children[static_cast<size_t>(me.rank)], &config));
  });
  EXPECT_THAT(problem(tuttiBarrier(ranks[0], nullptr)), StartsWith("timeout"));
  ranks.run([&](const Member& me) {
    const tuttiComm_t child = children[static_cast<size_t>(me.rank)];
    expect_usable({child, me.rank, me.n});
    EXPECT_DONE(tuttiCommDestroy(child));
  });
}

}  // namespace
}  // namespace tutti::test
