#include "perf/collective.h"

using namespace tutti::perf;

int main(int argc, char** argv) {
  return perf_main(argc, argv,
                   {.program = "broadcast_perf",
                    .title = "Broadcast",
                    .name = "broadcast",
                    .reduces = false,
                    .rooted = true,
                    .in_place = true,
                    .split_by_ranks = false,
                    .window = [](size_t count, size_t) { return Window{.send = count, .recv = count}; },
                    .blocks =
                        [](const Job& job) {
                          return std::vector<Block>{{Block::From::rank, 0, job.count, job.root}};
                        },
                    .bus_factor = whole,
                    .call =
                        [](const Call& c) {
                          return tuttiBroadcast(c.send, c.recv, c.job.count, c.type, c.job.root, c.comm, c.stream);
                        }});
}
