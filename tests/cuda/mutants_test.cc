// The protocol with something left out, and kernels that must end early.
//
// The mutants pass every functional test on x86 without delayed stores: the weather finds them.
#include <gtest/gtest.h>
#include <sched.h>

#include "cuda/move_kernel.h"
#include "tests/cuda/device_world.h"
#include "tests/cuda/mutants.h"

namespace tutti {
namespace {

// Whether one of that many seeds shows a difference from the host engine, or a kernel that never finishes. Blocks are
// threads of the system, so a seed does not settle it alone: on a busy machine a mutant may get through eight of them.
bool caught(KernelBody (*kernels)(KernelId), uint64_t seeds) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    DeviceWorld world({.nranks = Rank{3},
                       .weather = {.seed = seed, .delay_stores = true},
                       .kernels = kernels,
                       .timeout = 20 * kSecond});
    Ensemble ensemble({.nranks = Rank{3}, .seed = seed});
    DeviceCall call;
    call.algorithm = find_algorithm("ring", Collective::all_reduce);
    call.count = 2000;
    call.tile_bytes = 1024;
    call.data_seed = seed;
    if (!compare(world, ensemble, call).ok()) return true;
  }
  return false;
}

TEST(Mutants, TheSoundOrderSurvivesTheWeather) { EXPECT_FALSE(caught(mutants::kernel<dev::Sound>, 20)); }
TEST(Mutants, AMissingReleaseIsCaught) { EXPECT_TRUE(caught(mutants::kernel<mutants::NoRelease>, 1000)); }
TEST(Mutants, AMissingBarrierIsCaught) { EXPECT_TRUE(caught(mutants::kernel<mutants::NoBarrier>, 1000)); }

Result<Progress> finish(DeviceExecution& execution) {
  for (;;) {
    const Result<Progress> progress = execution.poll();
    if (!progress.ok() || progress.value() == Progress::finished) return progress;
    ::sched_yield();
  }
}

class EarlyEnds : public testing::TestWithParam<dev::Protocol> {
 protected:
  DeviceCall call() {
    DeviceCall c;
    c.algorithm = find_algorithm("ring", Collective::all_reduce);
    c.count = 100;
    c.protocol = GetParam();
    return c;
  }
  std::vector<std::byte> in_ = std::vector<std::byte>(400), out_[2] = {in_, in_};
};

TEST_P(EarlyEnds, AMessageOfAnotherOperationIsAnErrorOfBothStamps) {
  DeviceWorld world({.nranks = Rank{2}});
  DeviceExecution& first = world.start(call(), Rank{0}, 17, in_, out_[0]);
  DeviceExecution& second = world.start(call(), Rank{1}, 18, in_, out_[1]);
  const Result<Progress> result = finish(first);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), tuttiInvalidUsage);
  ASSERT_TRUE(first.mismatch().has_value());
  EXPECT_EQ(first.mismatch()->theirs.tag, 18u);
  EXPECT_EQ(first.mismatch()->peer, 1u);
  EXPECT_FALSE(finish(second).ok());
}

TEST_P(EarlyEnds, AKernelWhosePeerNeverComesEndsWhenAskedTo) {
  DeviceWorld world({.nranks = Rank{2}});
  DeviceExecution& alone = world.start(call(), Rank{0}, 1, in_, out_[0]);
  while (alone.waits().empty()) ::sched_yield();
  EXPECT_EQ(alone.waits()[0].peer, 1u);
  EXPECT_TRUE(alone.waits()[0].receiving);
  alone.cancel();
  EXPECT_TRUE(alone.waits().empty());
}

TEST_P(EarlyEnds, AKernelEndsItselfAtItsDeadline) {
  DeviceWorld world({.nranks = Rank{2}, .timeout = 10 * kMillisecond});
  const Result<Progress> result = finish(world.start(call(), Rank{0}, 1, in_, out_[0]));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), tuttiTimeout);
  EXPECT_NE(result.status().message().find("rank 1"), std::string_view::npos) << result.status().message();
}

INSTANTIATE_TEST_SUITE_P(Protocols, EarlyEnds, testing::Values(dev::Protocol::simple, dev::Protocol::ll),
                         [](const auto& p) { return p.param == dev::Protocol::ll ? "ll" : "simple"; });

}  // namespace
}  // namespace tutti
