#include "perf/collective.h"

using namespace tutti::perf;

int main(int argc, char** argv) {
  return perf_main(
      argc, argv,
      {.program = "alltoall_perf",
       .title = "AlltoAll",
       .name = "all_to_all",
       .reduces = false,
       .rooted = false,
       .in_place = false,
       .split_by_ranks = true,
       .window = [](size_t count, size_t n) { return Window{.send = count * n, .recv = count * n}; },
       .blocks =
           [](const Job& job) {
             const size_t for_me = static_cast<size_t>(job.rank) * job.count;
             std::vector<Block> blocks;
             for (int q = 0; q < job.nranks; ++q)
               blocks.push_back({Block::From::rank, static_cast<size_t>(q) * job.count, job.count, q, for_me});
             return blocks;
           },
       .bus_factor = all_but_own_share,
       .call = [](const Call& c) { return tuttiAllToAll(c.send, c.recv, c.job.count, c.type, c.comm, c.stream); }});
}
