// The wait loop, driven by a script and a clock that the test owns.
#include "engine/wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/fd.h"

namespace tutti {
namespace {

using testing::HasSubstr;

// Goes on by `step` at every look.
class SteppingClock final : public Clock {
 public:
  explicit SteppingClock(Nanoseconds step) : step_(step) {}
  Nanoseconds now() const override {
    ++looks_;
    return now_ += step_;
  }
  uint64_t looks() const { return looks_; }

 private:
  Nanoseconds step_;
  mutable Nanoseconds now_ = kSecond;
  mutable uint64_t looks_ = 0;
};

// Answers polls by a function of their number and writes down what it is asked: p poll, a armed, n not armed, b
// blocked, f finish_wait, c check. Its descriptor is always readable, so that a wait ends at once and leaves its mark.
class Script final : public Waitable {
 public:
  using Answer = std::function<Result<Progress>(uint64_t poll, bool armed)>;
  explicit Script(Answer answer) : answer_(std::move(answer)), event_(::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  Result<Progress> poll() override {
    record('p');
    return answer_(polls++, armed_);
  }
  bool prepare_wait(std::vector<pollfd>& descriptors) override {
    EXPECT_FALSE(armed_) << "prepared twice";
    armed_ = true;
    descriptors_ = &descriptors;
    descriptors.push_back({event_.get(), POLLIN, 0});
    record(can_arm ? 'a' : 'n');
    return can_arm;
  }
  void finish_wait() override {
    EXPECT_TRUE(armed_) << "finished without having prepared";
    armed_ = false;
    if (descriptors_->back().revents != 0) record('b');
    record('f');
  }
  Status check(Nanoseconds since_last_move) override {
    record('c');
    idle.push_back(since_last_move);
    if (idle.size() >= checks_max) return fail(tuttiTimeout, "check number {} ends it", idle.size());
    return {};
  }

  bool can_arm = true;
  size_t checks_max = 1000;  // a loop that forgets to poll ends too
  uint64_t polls = 0;
  std::vector<Nanoseconds> idle;
  std::string trace;
  bool armed() const { return armed_; }
  size_t times(char what) const { return static_cast<size_t>(std::ranges::count(trace, what)); }

 private:
  void record(char what) { trace += what; }
  Answer answer_;
  Fd event_;
  bool armed_ = false;
  std::vector<pollfd>* descriptors_ = nullptr;
};

constexpr WaitPolicy kBlockAtOnce{0, 0};

TEST(Wait, EndsWithTheFirstFinished) {
  Script script([](uint64_t poll, bool) { return poll == 2 ? Progress::finished : Progress::moved; });
  EXPECT_TRUE(wait_until_finished(script, kBlockAtOnce, SteppingClock(1)).ok());
  EXPECT_EQ(script.trace, "ppp");
}

TEST(Wait, EndsWithAnErrorOfPoll) {
  Script script([](uint64_t poll, bool) -> Result<Progress> {
    if (poll == 3) return fail(tuttiRemoteError, "gone");
    return Progress::moved;
  });
  const Status status = wait_until_finished(script, kBlockAtOnce, SteppingClock(1));
  EXPECT_EQ(status.code(), tuttiRemoteError);
  EXPECT_EQ(script.polls, 4u);
}

TEST(Wait, PollsAlsoWhenNoWakeUpCanBeArmed) {
  Script script([](uint64_t poll, bool) { return poll == 20 ? Progress::finished : Progress::blocked; });
  script.can_arm = false;
  const Status status = wait_until_finished(script, kBlockAtOnce, SteppingClock(kMillisecond));
  EXPECT_TRUE(status.ok()) << status.c_str();
  EXPECT_GT(script.times('n'), 10u);
  EXPECT_EQ(script.times('b'), 0u) << "it blocked though something had happened: " << script.trace;
}

TEST(Wait, BlocksWhenNothingMovesAndAWakeUpIsArmed) {
  Script script([](uint64_t poll, bool) { return poll == 5 ? Progress::finished : Progress::blocked; });
  EXPECT_TRUE(wait_until_finished(script, kBlockAtOnce, SteppingClock(1)).ok());
  EXPECT_THAT(script.trace, HasSubstr("apbf"));
}

TEST(Wait, DoesNotBlockWhenSomethingMovedAfterArming) {
  Script script([](uint64_t poll, bool armed) {
    if (poll == 30) return Progress::finished;
    return armed ? Progress::moved : Progress::blocked;
  });
  EXPECT_TRUE(wait_until_finished(script, kBlockAtOnce, SteppingClock(1)).ok());
  EXPECT_GT(script.times('a'), 5u);
  EXPECT_EQ(script.times('b'), 0u) << script.trace;
}

TEST(Wait, FinishesEveryWaitThatItPrepared) {
  for (const bool fails : {false, true}) {
    Script script([&](uint64_t poll, bool armed) -> Result<Progress> {
      if (poll < 10 || !armed) return Progress::blocked;
      if (fails) return fail(tuttiRemoteError, "gone");
      return Progress::finished;
    });
    EXPECT_EQ(wait_until_finished(script, kBlockAtOnce, SteppingClock(1)).code(),
              fails ? tuttiRemoteError : tuttiSuccess);
    EXPECT_FALSE(script.armed()) << script.trace;
    EXPECT_EQ(script.times('a'), script.times('f'));
    EXPECT_GT(script.times('a'), 0u);
  }
}

TEST(Wait, ChecksWithGrowingIdleTimeAndEndsWithItsError) {
  for (const WaitPolicy& policy : {kBlockAtOnce, WaitPolicy{1u << 30, 0}, WaitPolicy{0, kSecond * 3600}}) {
    Script script([](uint64_t, bool) { return Progress::blocked; });
    script.checks_max = 8;
    const Status status = wait_until_finished(script, policy, SteppingClock(7 * kMillisecond));
    EXPECT_EQ(status.code(), tuttiTimeout);
    EXPECT_THAT(std::string(status.message()), HasSubstr("check number 8"));
    ASSERT_EQ(script.idle.size(), 8u);
    Nanoseconds before = 0;
    for (const Nanoseconds idle : script.idle) {
      EXPECT_GT(idle, before);
      EXPECT_LE(idle - before, kCheckInterval);
      before = idle;
    }
  }
}

TEST(Wait, CountsIdleTimeFromTheLastMove) {
  Script script([](uint64_t poll, bool) { return poll == 100 ? Progress::moved : Progress::blocked; });
  script.checks_max = 40;
  EXPECT_EQ(wait_until_finished(script, kBlockAtOnce, SteppingClock(10 * kMillisecond)).code(), tuttiTimeout);
  // It grows, falls once, and grows again.
  const auto fall = std::ranges::adjacent_find(script.idle, std::greater<>());
  ASSERT_NE(fall, script.idle.end());
  EXPECT_GT(*fall, 500 * kMillisecond);
  EXPECT_LE(*(fall + 1), kCheckInterval);
  EXPECT_TRUE(std::is_sorted(fall + 1, script.idle.end()));
}

TEST(Wait, ADeadlineIsNotReachedWhileThingsMove) {
  Script script([](uint64_t poll, bool) {
    if (poll == 3000) return Progress::finished;
    return poll % 3 == 0 ? Progress::moved : Progress::blocked;
  });
  EXPECT_TRUE(wait_until_finished(script, {0, kSecond}, SteppingClock(kMillisecond)).ok());
  for (const Nanoseconds idle : script.idle) EXPECT_LE(idle, kCheckInterval);
}

TEST(Wait, SpinsBeforeItBlocksAndSeldomLooksAtTheClock) {
  Script script(
      [](uint64_t poll, bool armed) { return armed && poll > 1000 ? Progress::finished : Progress::blocked; });
  SteppingClock clock(1);
  EXPECT_TRUE(wait_until_finished(script, {1000, 0}, clock).ok());
  EXPECT_GE(script.trace.find('a'), 1000u);
  EXPECT_LE(clock.looks(), 1000 / 32u);
}

TEST(Wait, SpinsAgainAfterAMove) {
  Script script([](uint64_t poll, bool) {
    if (poll == 1500) return Progress::moved;
    return poll == 2000 ? Progress::finished : Progress::blocked;
  });
  EXPECT_TRUE(wait_until_finished(script, {1000, 0}, SteppingClock(1)).ok());
  EXPECT_GT(script.times('a'), 0u);
  EXPECT_LT(script.trace.rfind('a'), script.trace.size() - 400) << "it blocked right after a move";
}

// Others want the core: the loop blocks at the next look instead of spinning on.
TEST(Wait, BlocksSoonWhereTheCoreWasLost) {
  static uint64_t losses;
  losses = 1;
  const auto polls_until_blocked = [](Crowd& crowd, Nanoseconds step) {
    Script script([](uint64_t poll, bool armed) -> Result<Progress> {
      if (poll > 100'000) return fail(tuttiInternalError, "never blocked");
      return armed ? Progress::finished : Progress::blocked;
    });
    EXPECT_TRUE(wait_until_finished(script, {50'000, 0, &crowd}, SteppingClock(step)).ok());
    return script.polls;
  };
  Crowd crowd([] { return losses; });
  EXPECT_LT(polls_until_blocked(crowd, 3 * kMillisecond), 1000u) << "gaps, and a core that was taken";
  Crowd alone([] { return uint64_t{0}; });
  EXPECT_GE(polls_until_blocked(alone, 3 * kMillisecond), 50'000u) << "gaps, but nobody took the core";
  Crowd steady([] { return ++losses; });
  EXPECT_GE(polls_until_blocked(steady, 1), 50'000u) << "no gaps";
}

TEST(Wait, SpinsAgainWhenTheCrowdHasGone) {
  Crowd crowd([] { return uint64_t{7}; });
  crowd.look(3 * kMillisecond, kSecond);
  EXPECT_TRUE(crowd.present(kSecond + kMillisecond));
  EXPECT_FALSE(crowd.present(2 * kSecond));
  crowd.look(3 * kMillisecond, 3 * kSecond);
  EXPECT_FALSE(crowd.present(3 * kSecond)) << "the same count is no new loss";
}

TEST(WaitPolicy, DoesNotSpinWhereRanksOutnumberCores) {
  EXPECT_GT(wait_policy(2, 2).spin_polls, 0u);
  EXPECT_EQ(wait_policy(3, 2).spin_polls, 0u);
}

}  // namespace
}  // namespace tutti
