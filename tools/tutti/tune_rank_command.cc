#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "tutti/commands.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

constexpr Nanoseconds kTimePerSize = 8 * kMillisecond;
constexpr size_t kPageBytes = 4096;
constexpr int kWarmUps = 3, kLeastGroups = 3, kMostGroups = 200;

// Two ranks that the scheduler has put on one core, and leaves there for a while, would measure that and nothing else.
void take_own_core() {
  const char* rank = std::getenv("LOCAL_RANK");
  const char* ranks = std::getenv("LOCAL_WORLD_SIZE");
  cpu_set_t usable;
  if (!rank || !ranks || ::sched_getaffinity(0, sizeof usable, &usable) != 0) return;
  if (std::atoi(ranks) > CPU_COUNT(&usable)) return;
  int left = std::atoi(rank);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &usable) || left-- > 0) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    (void)::sched_setaffinity(0, sizeof own, &own);
    return;
  }
}

// A rank of an experiment of `tutti tune`: times all_reduce of float32 in place.
class TuneRank {
 public:
  tuttiResult_t run(const std::vector<uint64_t>& sizes) {
    if (const tuttiResult_t result = tuttiCommInitFromEnv(&comm_, nullptr); result != tuttiSuccess) return result;
    (void)tuttiCommUserRank(comm_, &rank_);
    for (const uint64_t bytes : sizes)
      if (const tuttiResult_t result = time_size(bytes); result != tuttiSuccess) return result;
    return tuttiCommDestroy(comm_);
  }

 private:
  tuttiResult_t reduce(size_t count) {
    return tuttiAllReduce(values_.get(), values_.get(), count, tuttiFloat32, tuttiSum, comm_, nullptr);
  }
  // Of `calls` in a row.
  tuttiResult_t time_calls(size_t count, int calls, double& seconds_per_call) {
    const Nanoseconds begin = steady_now();
    for (int i = 0; i < calls; ++i)
      if (const tuttiResult_t result = reduce(count); result != tuttiSuccess) return result;
    seconds_per_call = static_cast<double>(steady_now() - begin) * 1e-9 / calls;
    return tuttiSuccess;
  }

  tuttiResult_t time_size(uint64_t bytes) {
    const size_t count = std::max<uint64_t>(bytes / sizeof(float), 1);
    // Zeros stay zeros, so nothing overflows. On a page, as frameworks have it: glibc's memcpy takes three times as
    // long to where it is not aligned to a line.
    values_.reset(static_cast<float*>(std::aligned_alloc(kPageBytes, (bytes / kPageBytes + 1) * kPageBytes)));
    if (!values_) return tuttiSystemError;
    std::fill_n(values_.get(), count, 0.0F);
    double once = 0;
    if (const tuttiResult_t result = time_calls(count, kWarmUps, once); result != tuttiSuccess) return result;
    // Rank 0 says how often. Small ones in groups, since reading the clock takes as long as some of them.
    const double calls = static_cast<double>(kTimePerSize) * 1e-9 / std::max(once, 1e-7);
    int32_t plan[2] = {calls > 1000 ? 10 : 1, 0};
    plan[1] = std::clamp(static_cast<int32_t>(calls / plan[0]), kLeastGroups, kMostGroups);
    if (const tuttiResult_t result = tuttiBroadcast(plan, plan, 2, tuttiInt32, 0, comm_, nullptr);
        result != tuttiSuccess)
      return result;
    std::vector<double> times(static_cast<size_t>(plan[1]));
    for (double& time : times)
      if (const tuttiResult_t result = time_calls(count, plan[0], time); result != tuttiSuccess) return result;
    if (rank_ != 0) return tuttiSuccess;
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    tuttiChoice_t choice{};
    choice.size = sizeof choice;
    if (const tuttiResult_t result = tuttiCommQueryChoice(comm_, "all_reduce", count, tuttiFloat32, &choice);
        result != tuttiSuccess)
      return result;
    fmt::print("{} {} {} {:.12f}\n", bytes, choice.tile_bytes, choice.lanes, times[times.size() / 2]);
    return tuttiSuccess;
  }

  tuttiComm_t comm_ = nullptr;
  int rank_ = 0;
  std::unique_ptr<float[], decltype(&std::free)> values_{nullptr, std::free};
};

}  // namespace

Action add_tune_rank_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tune-rank", "A rank of an experiment of tutti tune")->group("");
  auto sizes = std::make_shared<std::vector<uint64_t>>();
  command->add_option("sizes", *sizes);
  return [sizes] {
    take_own_core();
    const tuttiResult_t result = TuneRank().run(*sizes);
    if (result == tuttiSuccess) return 0;
    fmt::print(stderr, "tutti tune: {}\n", tuttiGetLastError(nullptr));
    return 1;
  };
}

}  // namespace tutti
