#include "perf/collective.h"

using namespace tutti::perf;

int main(int argc, char** argv) {
  return perf_main(argc, argv,
                   {.program = "reduce_perf",
                    .title = "Reduce",
                    .name = "reduce",
                    .reduces = true,
                    .rooted = true,
                    .in_place = true,
                    .split_by_ranks = false,
                    .window = [](size_t count, size_t) { return Window{.send = count, .recv = count}; },
                    .blocks =
                        [](const Job& job) {
                          std::vector<Block> blocks;
                          if (job.rank == job.root) blocks.push_back({Block::From::reduction, 0, job.count});
                          return blocks;
                        },
                    .bus_factor = whole,
                    .call =
                        [](const Call& c) {
                          return tuttiReduce(c.send, c.recv, c.job.count, c.type, c.op, c.job.root, c.comm, c.stream);
                        }});
}
