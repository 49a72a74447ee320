#include "perf/collective.h"

using namespace tutti::perf;

int main(int argc, char** argv) {
  return perf_main(
      argc, argv,
      {.program = "allreduce_perf",
       .title = "AllReduce",
       .name = "all_reduce",
       .reduces = true,
       .rooted = false,
       .in_place = true,
       .split_by_ranks = false,
       .window = [](size_t count, size_t) { return Window{.send = count, .recv = count}; },
       .blocks =
           [](const Job& job) {
             return std::vector<Block>{{Block::From::reduction, 0, job.count}};
           },
       .bus_factor = [](double n) { return 2 * (n - 1) / n; },
       .call =
           [](const Call& c) { return tuttiAllReduce(c.send, c.recv, c.job.count, c.type, c.op, c.comm, c.stream); }});
}
