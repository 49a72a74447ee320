#include "perf/collective.h"

using namespace tutti::perf;

int main(int argc, char** argv) {
  return perf_main(
      argc, argv,
      {.program = "gather_perf",
       .title = "Gather",
       .name = "gather",
       .reduces = false,
       .rooted = true,
       .in_place = true,
       .split_by_ranks = true,
       .window = [](size_t count,
                    size_t n) { return Window{.send = count, .recv = count * n, .in_place_send_stride = count}; },
       .blocks =
           [](const Job& job) {
             std::vector<Block> blocks;
             if (job.rank != job.root) return blocks;
             for (int q = 0; q < job.nranks; ++q)
               blocks.push_back({Block::From::rank, static_cast<size_t>(q) * job.count, job.count, q});
             return blocks;
           },
       .bus_factor = all_but_own_share,
       .call =
           [](const Call& c) {
             return tuttiGather(c.send, c.recv, c.job.count, c.type, c.job.root, c.comm, c.stream);
           }});
}
