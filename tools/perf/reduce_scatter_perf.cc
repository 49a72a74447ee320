#include "perf/collective.h"

using namespace tutti::perf;

int main(int argc, char** argv) {
  return perf_main(
      argc, argv,
      {.program = "reduce_scatter_perf",
       .title = "ReduceScatter",
       .name = "reduce_scatter",
       .reduces = true,
       .rooted = false,
       .in_place = true,
       .split_by_ranks = true,
       .window = [](size_t count,
                    size_t n) { return Window{.send = count * n, .recv = count, .in_place_recv_stride = count}; },
       .blocks =
           [](const Job& job) {
             const size_t mine = static_cast<size_t>(job.rank) * job.count;
             return std::vector<Block>{{Block::From::reduction, 0, job.count, 0, mine}};
           },
       .bus_factor = all_but_own_share,
       .call =
           [](const Call& c) {
             return tuttiReduceScatter(c.send, c.recv, c.job.count, c.type, c.op, c.comm, c.stream);
           }});
}
