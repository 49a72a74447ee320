// What a communicator of n threads costs: tuttiCommInitAll, and the first AllReduce, which opens links. Destroying it
// is not counted.
#include <benchmark/benchmark.h>
#include <tutti/tutti.h>

#include <chrono>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// One AllReduce of a float on every rank, each in a thread of its own.
bool reduce_once(const std::vector<tuttiComm_t>& comms) {
  std::vector<tuttiResult_t> results(comms.size(), tuttiInternalError);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < comms.size(); ++rank) {
    threads.emplace_back([&, rank] {
      float value = 1;
      results[rank] = tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comms[rank], nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const tuttiResult_t result : results)
    if (result != tuttiSuccess) return false;
  return true;
}

void init_all(benchmark::State& state, bool with_first_call) {
  std::vector<tuttiComm_t> comms(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    const auto start = Clock::now();
    if (tuttiCommInitAll(comms.data(), static_cast<int>(comms.size()), nullptr) != tuttiSuccess ||
        (with_first_call && !reduce_once(comms)))
      return state.SkipWithError(tuttiGetLastError(nullptr));
    state.SetIterationTime(seconds_since(start));
    for (const tuttiComm_t comm : comms) tuttiCommDestroy(comm);
  }
}

BENCHMARK_CAPTURE(init_all, alone, false)
    ->Arg(1)
    ->Arg(2)
    ->Arg(4)
    ->Arg(8)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(init_all, and_first_all_reduce, true)->Arg(2)->Arg(8)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
