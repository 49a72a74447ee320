// Making communicators: ranks that do not come, come twice, or contradict each other; ids that are none.
#include <cstring>

#include "ranks.h"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

class Meeting : public testing::Test {
 protected:
  // Each (nranks, rank) of `claims` in a thread of its own; what each of them got, "" for a communicator.
  std::vector<std::string> meet(const std::vector<std::pair<int, int>>& claims, int timeout_ms = kPatienceMs) {
    const tuttiUniqueId id = unique_id();
    const tuttiConfig_t config = config_of(timeout_ms);
    std::vector<std::string> texts(claims.size());
    in_threads(static_cast<int>(claims.size()), [&](int i) {
      const auto k = static_cast<size_t>(i);
      tuttiComm_t comm = nullptr;
      texts[k] = problem(tuttiCommInitRankConfig(&comm, claims[k].first, id, claims[k].second, &config));
      EXPECT_EQ(comm == nullptr, !texts[k].empty());
      if (comm) EXPECT_DONE(tuttiCommDestroy(comm));
    });
    return texts;
  }
  Environment environment_;
};

TEST_F(Meeting, NamesTheRanksThatDoNotCome) {
  EXPECT_THAT(meet({{5, 0}, {5, 3}, {5, 2}}, kShortMs),
              Each(AllOf(StartsWith("timeout"), HasSubstr("ranks 1, 4"), HasSubstr("TUTTI_TIMEOUT"))));
}

TEST_F(Meeting, NamesARankThatComesTwice) {
  EXPECT_THAT(meet({{3, 1}, {3, 1}}), Each(AllOf(StartsWith("invalid usage"), HasSubstr("rank 1 was claimed twice"))));
}

TEST_F(Meeting, NamesThoseWhoCountDifferently) {
  EXPECT_THAT(meet({{2, 0}, {3, 1}}), Each(AllOf(StartsWith("invalid usage"), HasSubstr("rank 0 (host"),
                                                 HasSubstr("rank 1 (host"), HasSubstr("2"), HasSubstr("3"))));
}

TEST_F(Meeting, TellsALatecomerThatTheGroupIsComplete) {
  const tuttiUniqueId id = unique_id();
  tuttiComm_t comm = nullptr, late = nullptr;
  ASSERT_DONE(tuttiCommInitRank(&comm, 1, id, 0));
  EXPECT_THAT(problem(tuttiCommInitRank(&late, 1, id, 0)), AllOf(StartsWith("invalid usage"), HasSubstr("complete")));
  EXPECT_EQ(late, nullptr);
  expect_usable({comm, 0, 1});
  EXPECT_DONE(tuttiCommDestroy(comm));
}

TEST_F(Meeting, RefusesBytesThatAreNoId) {
  tuttiUniqueId id{};
  tuttiComm_t comm = nullptr;
  EXPECT_THAT(problem(tuttiCommInitRank(&comm, 1, id, 0)),
              AllOf(StartsWith("invalid argument"), HasSubstr("tuttiGetUniqueId")));
  std::memset(id.internal, 'x', sizeof id.internal);
  EXPECT_THAT(problem(tuttiCommInitRank(&comm, 1, id, 0)), StartsWith("invalid argument"));
  EXPECT_EQ(comm, nullptr);
}

// A flipped bit anywhere either is noticed or makes the id point elsewhere; it never lets the rank in.
TEST_F(Meeting, RefusesAnIdWithAnyFlippedBit) {
  const tuttiConfig_t config = config_of(kShortMs);
  for (size_t byte = 0; byte < TUTTI_UNIQUE_ID_BYTES; byte += 9) {
    tuttiUniqueId id = unique_id();
    id.internal[byte] = static_cast<char>(id.internal[byte] ^ 0x10);
    tuttiComm_t comm = nullptr;
    EXPECT_NE(problem(tuttiCommInitRankConfig(&comm, 1, id, 0, &config)), "") << "byte " << byte;
    EXPECT_EQ(comm, nullptr);
  }
}

TEST_F(Meeting, TwoGroupsAtOnceDoNotMix) {
  const tuttiUniqueId ids[2] = {unique_id(), unique_id()};
  in_threads(4, [&](int i) {
    const int group = i / 2, rank = i % 2;
    tuttiComm_t comm = nullptr;
    ASSERT_DONE(tuttiCommInitRank(&comm, 2, ids[group], rank));
    int32_t value = group + 1;
    EXPECT_DONE(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, nullptr));
    EXPECT_EQ(value, 2 * (group + 1));
    EXPECT_DONE(tuttiCommDestroy(comm));
  });
}

TEST_F(Meeting, ManyOneAfterTheOther) {
  for (int k = 0; k < 20; ++k) {
    const Ranks ranks(1 + k % 3);
    expect_usable(ranks);
  }
}

TEST_F(Meeting, WrongArguments) {
  const tuttiUniqueId id = unique_id();
  tuttiComm_t comm = nullptr;
  const auto expect_refused = [&](tuttiResult_t result, const std::string& part) {
    EXPECT_THAT(problem(result), AllOf(StartsWith("invalid argument"), HasSubstr(part)));
    EXPECT_EQ(comm, nullptr);
  };
  expect_refused(tuttiGetUniqueId(nullptr), "id is NULL");
  expect_refused(tuttiCommInitRank(nullptr, 1, id, 0), "comm is NULL");
  expect_refused(tuttiCommInitRank(&comm, 0, id, 0), "nranks is 0");
  expect_refused(tuttiCommInitRank(&comm, -3, id, 0), "nranks is -3");
  expect_refused(tuttiCommInitRank(&comm, 2, id, 2), "rank is 2");
  expect_refused(tuttiCommInitRank(&comm, 2, id, -1), "rank is -1");
  tuttiConfig_t config = config_of(-5);
  expect_refused(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), "timeout_ms is -5");
  config = config_of(0);
  expect_refused(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), "timeout_ms is 0");
  config = config_of(1000);
  config.size = 0;
  expect_refused(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), "size is 0");
  expect_refused(tuttiCommInitAll(nullptr, 2, nullptr), "comms is NULL");
  expect_refused(tuttiCommInitAll(&comm, 0, nullptr), "ndev is 0");
  const int device = 0;
  EXPECT_THAT(problem(tuttiCommInitAll(&comm, 1, &device)), AllOf(StartsWith("invalid usage"), HasSubstr("device 0")));
  // After all that the id still works.
  ASSERT_DONE(tuttiCommInitRank(&comm, 1, id, 0));
  expect_usable({comm, 0, 1});
  EXPECT_DONE(tuttiCommDestroy(comm));
}

}  // namespace
}  // namespace tutti::test
