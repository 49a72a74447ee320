// New communicators from old ones: split, shrink, grow.
#include "ranks.h"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class Reshape : public WorldTest {};

// A communicator as its own member; null is a failure.
Member member_of(tuttiComm_t comm) {
  Member member{comm, -1, 0};
  EXPECT_DONE(tuttiCommUserRank(comm, &member.rank));
  EXPECT_DONE(tuttiCommCount(comm, &member.n));
  return member;
}

void use_and_destroy(tuttiComm_t comm, int rank, int n) {
  const Member member = member_of(comm);
  EXPECT_EQ(member.rank, rank);
  EXPECT_EQ(member.n, n);
  expect_usable(member);
  EXPECT_DONE(tuttiCommDestroy(comm));
}

TEST_P(Reshape, SplitByColor) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    tuttiComm_t part = nullptr;
    ASSERT_DONE(tuttiCommSplit(me.comm, me.rank % 2, 0, &part, nullptr));
    use_and_destroy(part, me.rank / 2, (me.n + 1 - me.rank % 2) / 2);
    expect_usable(me);
  });
}

TEST_P(Reshape, SplitOrdersByKeyThenRank) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    tuttiComm_t reversed = nullptr, equal = nullptr;
    ASSERT_DONE(tuttiCommSplit(me.comm, 7, -me.rank, &reversed, nullptr));
    use_and_destroy(reversed, me.n - 1 - me.rank, me.n);
    ASSERT_DONE(tuttiCommSplit(me.comm, 0, 5, &equal, nullptr));
    use_and_destroy(equal, me.rank, me.n);
  });
}

TEST_P(Reshape, SplitWithoutSome) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    tuttiComm_t part = me.comm;
    ASSERT_DONE(tuttiCommSplit(me.comm, me.rank == 0 ? TUTTI_SPLIT_NOCOLOR : 3, 0, &part, nullptr));
    if (me.rank == 0)
      EXPECT_EQ(part, nullptr);
    else
      use_and_destroy(part, me.rank - 1, me.n - 1);
    expect_usable(me);
  });
}

// Child and grandchild outlive each other in any order, and the parent.
TEST_P(Reshape, SplitOfASplit) {
  Ranks ranks(n());
  ranks.run([&](const Member& me) {
    tuttiComm_t child = nullptr, grandchild = nullptr;
    const tuttiConfig_t config = config_of(kPatienceMs, "child");
    ASSERT_DONE(tuttiCommSplit(me.comm, 0, -me.rank, &child, &config));
    ASSERT_DONE(tuttiCommSplit(child, 0, -(me.n - 1 - me.rank), &grandchild, nullptr));
    EXPECT_DONE(tuttiCommDestroy(child));
    ranks.destroy(me.rank);
    use_and_destroy(grandchild, me.rank, me.n);
  });
}

TEST_P(Reshape, ShrinkOfHealthyRanks) {
  const Ranks ranks(n());
  const int leaver = n() - 1;
  ranks.run([&](const Member& me) {
    if (me.rank == leaver) return;
    tuttiComm_t rest = nullptr;
    ASSERT_DONE(tuttiCommShrink(me.comm, &leaver, 1, &rest, nullptr, TUTTI_SHRINK_DEFAULT));
    use_and_destroy(rest, me.rank, me.n - 1);
  });
}

// A rank is gone, the others get an error in the middle of their work, and go on without it. Also when the one that
// leaves made the meeting point.
TEST_P(Reshape, ShrinkAfterAFailure) {
  for (const int leaver : {n() - 1, 0}) {
    Ranks ranks(n());
    expect_usable(ranks);  // and all have left it before one aborts
    ranks.run([&](const Member& me) {
      if (me.rank == leaver) {
        EXPECT_DONE(tuttiCommAbort(me.comm));
        ranks.forget(me.rank);
        return;
      }
      std::vector<float> values(100'000, 1);
      const std::string said = problem(
          tuttiAllReduce(values.data(), values.data(), values.size(), tuttiFloat32, tuttiSum, me.comm, nullptr));
      EXPECT_THAT(said, AllOf(StartsWith("remote error"), HasSubstr("rank " + std::to_string(leaver))));
      tuttiComm_t rest = nullptr;
      EXPECT_EQ(problem(tuttiCommShrink(me.comm, &leaver, 1, &rest, nullptr, TUTTI_SHRINK_DEFAULT)), said);
      ASSERT_DONE(tuttiCommShrink(me.comm, &leaver, 1, &rest, nullptr, TUTTI_SHRINK_ABORT));
      use_and_destroy(rest, me.rank - (leaver == 0 ? 1 : 0), me.n - 1);
    });
  }
}

TEST_P(Reshape, ShrinkTwiceAndSplitTheRest) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    tuttiComm_t first = nullptr, second = nullptr, part = nullptr;
    const int last = me.n - 1;
    if (me.rank == last) return;
    ASSERT_DONE(tuttiCommShrink(me.comm, &last, 1, &first, nullptr, TUTTI_SHRINK_DEFAULT));
    ASSERT_DONE(tuttiCommShrink(me.comm, &last, 1, &second, nullptr, TUTTI_SHRINK_DEFAULT));
    ASSERT_DONE(tuttiCommSplit(first, 0, 0, &part, nullptr));
    EXPECT_DONE(tuttiCommDestroy(first));
    use_and_destroy(second, me.rank, me.n - 1);
    use_and_destroy(part, me.rank, me.n - 1);
  });
}

TEST_P(Reshape, GrowByNewcomers) {
  const Ranks ranks(n());
  tuttiUniqueId id;
  ASSERT_DONE(tuttiCommGetUniqueId(ranks[n() - 1], &id));
  const int bigger = n() + 2;
  in_threads(bigger, [&](int r) {
    tuttiComm_t grown = nullptr;
    // One old rank passes the id.
    if (r < n())
      ASSERT_DONE(tuttiCommGrow(ranks[r], bigger, r == 0 ? &id : nullptr, -1, &grown, nullptr));
    else
      ASSERT_DONE(tuttiCommGrow(nullptr, bigger, &id, r, &grown, nullptr));
    use_and_destroy(grown, r, bigger);
  });
  expect_usable(ranks);
}

INSTANTIATE_TEST_SUITE_P(Worlds, Reshape, testing::ValuesIn(worlds({2, 3, 5})), world_name);

TEST(ReshapeErrors, GrowWithoutAnId) {
  const Environment environment;
  const Ranks ranks(2);
  const std::vector<std::string> texts = ranks.each([](const Member& me) {
    tuttiComm_t grown = nullptr;
    return problem(tuttiCommGrow(me.comm, 3, nullptr, -1, &grown, nullptr));
  });
  EXPECT_THAT(texts, testing::Each(AllOf(StartsWith("invalid usage"), HasSubstr("tuttiCommGetUniqueId"))));
  expect_usable(ranks);
}

TEST(ReshapeErrors, ASplitThatOneRankDoesNotCall) {
  const Environment environment;
  const Ranks ranks(2, kShortMs);
  tuttiComm_t part = nullptr;
  EXPECT_THAT(problem(tuttiCommSplit(ranks[0], 0, 0, &part, nullptr)),
              AllOf(StartsWith("timeout"), HasSubstr("rank 1")));
  EXPECT_EQ(part, nullptr);
}

// The error is latched, so that no later call is taken for the one that is missing.
TEST(ReshapeErrors, AfterASplitThatOneRankDoesNotCallTheParentHasFailed) {
  const Environment environment;
  const Ranks ranks(2, kShortMs);
  tuttiComm_t part = nullptr;
  EXPECT_THAT(problem(tuttiCommSplit(ranks[1], -2, 0, &part, nullptr)), StartsWith("invalid argument"));
  const std::string late = problem(tuttiCommSplit(ranks[0], 0, 0, &part, nullptr));
  EXPECT_THAT(late, AllOf(StartsWith("timeout"), HasSubstr("rank 1")));
  const std::vector<std::string> texts = ranks.each([](const Member& me) {
    float value = 1;
    return problem(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, me.comm, nullptr));
  });
  EXPECT_EQ(texts[0], late);
  EXPECT_EQ(texts[1], late);
}

// Ranks that exclude different ones must not meet.
TEST(ReshapeErrors, ShrinkWithDifferentListsNamesBoth) {
  const Environment environment;
  const Ranks ranks(4, kShortMs);
  const std::vector<std::string> texts = ranks.each([](const Member& me) -> std::string {
    if (me.rank > 1) return "";
    const int excluded[2] = {3, 2};
    tuttiComm_t rest = nullptr;
    return problem(tuttiCommShrink(me.comm, excluded, 1 + me.rank, &rest, nullptr, TUTTI_SHRINK_DEFAULT));
  });
  EXPECT_THAT(texts[0], AllOf(StartsWith("timeout"), HasSubstr("ranks 1-2")));
  EXPECT_THAT(texts[1],
              AllOf(StartsWith("invalid usage"), HasSubstr("rank 1 excludes 2, 3"), HasSubstr("rank 0 excludes 3;")));
}

TEST(ReshapeErrors, WrongArguments) {
  const Environment environment;
  const Ranks ranks(2);
  tuttiComm_t made = nullptr;
  const int excluded[] = {0, 1, 2, -1};
  const auto expect_refused = [](tuttiResult_t result, const std::string& kind, const std::string& part) {
    EXPECT_THAT(problem(result), AllOf(StartsWith(kind), HasSubstr(part)));
  };
  expect_refused(tuttiCommSplit(ranks[0], -2, 0, &made, nullptr), "invalid argument", "color is -2");
  expect_refused(tuttiCommSplit(ranks[0], 0, 0, nullptr, nullptr), "invalid argument", "newcomm is NULL");
  expect_refused(tuttiCommShrink(ranks[0], excluded, 1, &made, nullptr, 0), "invalid usage", "rank 0 is excluded");
  expect_refused(tuttiCommShrink(ranks[0], excluded + 2, 1, &made, nullptr, 0), "invalid argument", "is 2");
  expect_refused(tuttiCommShrink(ranks[0], excluded + 3, 1, &made, nullptr, 0), "invalid argument", "is -1");
  expect_refused(tuttiCommShrink(ranks[0], nullptr, 1, &made, nullptr, 0), "invalid argument", "exclude_ranks is NULL");
  expect_refused(tuttiCommShrink(ranks[0], excluded + 1, 1, &made, nullptr, 9), "invalid argument", "flags is 9");
  expect_refused(tuttiCommGrow(ranks[0], 1, nullptr, -1, &made, nullptr), "invalid argument", "nranks is 1");
  expect_refused(tuttiCommGrow(ranks[0], 3, nullptr, 0, &made, nullptr), "invalid argument", "pass -1");
  expect_refused(tuttiCommGrow(nullptr, 3, nullptr, 2, &made, nullptr), "invalid argument", "newcomer");
  expect_refused(tuttiCommGetUniqueId(ranks[0], nullptr), "invalid argument", "id is NULL");
  expect_usable(ranks);
}

}  // namespace
}  // namespace tutti::test
