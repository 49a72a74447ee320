// What it costs to decode a plan: run_lane() over whole plans with a machine that does nothing. The time of an item is
// that of one step.
#include <benchmark/benchmark.h>

#include "algorithms/algorithm.h"
#include "plan/machine.h"

namespace tutti {
namespace {

struct Idle {
  bool try_step(LaneId, const Lane&, const Step& step) {
    benchmark::DoNotOptimize(step);
    ++steps;
    return true;
  }
  int64_t steps = 0;
};

void decode_plan(benchmark::State& state, const char* name) {
  const auto nranks = static_cast<uint32_t>(state.range(0));
  const Algorithm* algorithm = find_algorithm(name, Collective::all_reduce);
  const Shape shape{.collective = Collective::all_reduce, .nranks = Rank{nranks}, .root = Rank{0}, .lanes = 1};
  if (algorithm == nullptr || !algorithm->applies(shape)) return state.SkipWithError("no such plan");
  const Plan plan = algorithm->plan(shape, Rank{1});
  Idle machine;
  for (auto _ : state) {
    for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      Cursor cursor;
      benchmark::DoNotOptimize(run_lane(plan, LaneId{static_cast<uint16_t>(lane)}, cursor, machine));
    }
  }
  state.SetItemsProcessed(machine.steps);
  state.counters["step"] =
      benchmark::Counter(static_cast<double>(machine.steps), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void make_plan(benchmark::State& state, const char* name) {
  const Shape shape{.collective = Collective::all_reduce,
                    .nranks = Rank{static_cast<uint32_t>(state.range(0))},
                    .root = Rank{0},
                    .lanes = 1};
  const Algorithm* algorithm = find_algorithm(name, Collective::all_reduce);
  if (algorithm == nullptr || !algorithm->applies(shape)) return state.SkipWithError("no such plan");
  for (auto _ : state) benchmark::DoNotOptimize(algorithm->plan(shape, Rank{1}));
}

BENCHMARK_CAPTURE(decode_plan, ring, "ring")->Arg(2)->Arg(8)->Arg(128);
BENCHMARK_CAPTURE(decode_plan, all_pairs, "all_pairs")->Arg(2)->Arg(8)->Arg(128);
BENCHMARK_CAPTURE(decode_plan, tree, "tree")->Arg(8)->Arg(128);
BENCHMARK_CAPTURE(make_plan, ring, "ring")->Arg(8)->Arg(128);

}  // namespace
}  // namespace tutti
