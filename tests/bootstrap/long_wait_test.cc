// What ranks that wait long tell the hub, and what it makes of that.
#include "group_fixture.h"

namespace tutti::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string text(const Status& status) { return std::string(status.message()); }

LongWait wait_in(uint32_t sequence, uint64_t tag, const std::string& what, std::vector<Rank> peers = {}) {
  return {what, std::move(peers), {{sequence, tag, what}}};
}

// Waits until the hub has answered a report, or 20 s.
bool heard(Control& control) {
  for (const Nanoseconds until = steady_now() + 20 * kSecond; steady_now() < until;) {
    if (control.poll().heard > 0) return true;
    pollfd one{control.descriptor(), POLLIN, 0};
    ::poll(&one, 1, 100);
  }
  return false;
}

TEST(LongWaits, OfRanksThatDisagreeNameBoth) {
  const auto hub = make_hub();
  const auto group = make_group(hub->meeting_point(), 3);
  // One after the other: whoever tells first is the one who is named.
  group[0]->report_wait(wait_in(7, 0xaaaa, "all_reduce of 10 float"));
  EXPECT_TRUE(heard(*group[0]));
  group[1]->report_wait(wait_in(8, 0xbbbb, "a later one"));
  EXPECT_TRUE(heard(*group[1]));
  group[2]->report_wait(wait_in(7, 0xaaaa, "all_reduce of 10 float"));
  EXPECT_TRUE(heard(*group[2]));
  group[1]->report_wait(wait_in(7, 0xcccc, "broadcast of 3 int8 from 2"));
  for (const auto& control : group) {
    const Status failure = failure_of(*control);
    EXPECT_EQ(failure.code(), tuttiInvalidUsage);
    EXPECT_THAT(text(failure),
                AllOf(HasSubstr("operation 7"), HasSubstr("rank 0 (host host0, pid 1000) is in all_reduce of 10 float"),
                      HasSubstr("rank 1 (host host1, pid 1001) is in broadcast of 3 int8 from 2")));
  }
}

TEST(LongWaits, AreComparedWithTheCallsOfThoseWhoHaveLeft) {
  const auto hub = make_hub();
  const auto group = make_group(hub->meeting_point(), 2);
  group[1]->leave({{3, 0xaaaa, "broadcast from 1"}});
  group[0]->report_wait(wait_in(3, 0xbbbb, "broadcast from 0"));
  const Status failure = failure_of(*group[0]);
  EXPECT_EQ(failure.code(), tuttiInvalidUsage);
  EXPECT_THAT(text(failure), AllOf(HasSubstr("rank 1 (host host1, pid 1001) is in broadcast from 1"),
                                   HasSubstr("rank 0 (host host0, pid 1000) is in broadcast from 0")));
}

// Rank 0 waits for 1, that for 2, that for 3: what counts is rank 3, of which rank 0 knows nothing.
TEST(LongWaits, ThatTimeOutNameWhomItAllDependsOn) {
  const auto hub = make_hub();
  const auto group = make_group(hub->meeting_point(), 5);
  for (uint32_t r : {4u, 2u, 1u, 0u}) {
    group[r]->report_wait(wait_in(0, 1, "barrier", {Rank{(r + 1) % 5}}));
    EXPECT_TRUE(heard(*group[r]));
  }
  group[0]->report_failure(fail(tuttiTimeout, "nothing moved"));
  for (const auto& control : group) {
    const Status failure = failure_of(*control);
    EXPECT_EQ(failure.code(), tuttiTimeout);
    EXPECT_THAT(text(failure), AllOf(HasSubstr("rank 0 (host host0, pid 1000): nothing moved"),
                                     HasSubstr("it all depends on rank 3 (host host3, pid 1003), which")));
  }
}

TEST(LongWaits, EndWhenTheRankSaysThatItMoves) {
  const auto hub = make_hub();
  const auto group = make_group(hub->meeting_point(), 2);
  group[1]->report_wait(wait_in(0, 1, "barrier", {Rank{0}}));
  group[1]->report_moving();
  group[1]->report_wait(wait_in(1, 1, "a later barrier", {Rank{0}}));
  group[1]->report_moving();
  // An exchange goes through the same connections in order, so that the hub has read this when it is over.
  {
    std::vector<std::jthread> threads;
    for (const auto& control : group) threads.emplace_back([&control] { EXPECT_TRUE(control->exchange({}).ok()); });
  }
  group[0]->report_wait(wait_in(2, 1, "another barrier", {Rank{1}}));
  group[0]->report_failure(fail(tuttiTimeout, "nothing moved"));
  EXPECT_THAT(text(failure_of(*group[0])), HasSubstr("it all depends on rank 1 (host host1, pid 1001)"));
}

TEST(LongWaits, OfAllRanksTellWhatEachIsIn) {
  const auto hub = make_hub();
  const auto group = make_group(hub->meeting_point(), 2);
  group[1]->report_wait(wait_in(0, 1, "the first barrier", {Rank{0}}));
  EXPECT_TRUE(heard(*group[1]));
  group[0]->report_wait(wait_in(1, 1, "the second barrier", {Rank{1}}));
  group[0]->report_failure(fail(tuttiTimeout, "nothing moved"));
  EXPECT_THAT(text(failure_of(*group[1])),
              HasSubstr("rank 1 (host host1, pid 1001) waits too, in the first barrier"));
}

}  // namespace
}  // namespace tutti::test
