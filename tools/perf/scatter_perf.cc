#include "perf/collective.h"

using namespace tutti::perf;

int main(int argc, char** argv) {
  return perf_main(
      argc, argv,
      {.program = "scatter_perf",
       .title = "Scatter",
       .name = "scatter",
       .reduces = false,
       .rooted = true,
       .in_place = true,
       .split_by_ranks = true,
       .window = [](size_t count,
                    size_t n) { return Window{.send = count * n, .recv = count, .in_place_recv_stride = count}; },
       .blocks =
           [](const Job& job) {
             const size_t for_me = static_cast<size_t>(job.rank) * job.count;
             return std::vector<Block>{{Block::From::rank, 0, job.count, job.root, for_me}};
           },
       .bus_factor = all_but_own_share,
       .call =
           [](const Call& c) {
             return tuttiScatter(c.send, c.recv, c.job.count, c.type, c.job.root, c.comm, c.stream);
           }});
}
