#include "perf/collective.h"

using namespace tutti::perf;

namespace {

// Every rank sends to the next one and receives from the one before, both at once.
tuttiResult_t shift_by_one(const Call& c) {
  const int next = (c.job.rank + 1) % c.job.nranks, before = (c.job.rank + c.job.nranks - 1) % c.job.nranks;
  if (const tuttiResult_t result = tuttiGroupStart(); result != tuttiSuccess) return result;
  const tuttiResult_t sent = tuttiSend(c.send, c.job.count, c.type, next, c.comm, c.stream);
  const tuttiResult_t received = tuttiRecv(c.recv, c.job.count, c.type, before, c.comm, c.stream);
  const tuttiResult_t ended = tuttiGroupEnd();
  return sent != tuttiSuccess ? sent : received != tuttiSuccess ? received : ended;
}

}  // namespace

int main(int argc, char** argv) {
  return perf_main(argc, argv,
                   {.program = "sendrecv_perf",
                    .title = "SendRecv",
                    .name = "send",
                    .reduces = false,
                    .rooted = false,
                    .in_place = false,
                    .split_by_ranks = false,
                    .window = [](size_t count, size_t) { return Window{.send = count, .recv = count}; },
                    .blocks =
                        [](const Job& job) {
                          const int before = (job.rank + job.nranks - 1) % job.nranks;
                          return std::vector<Block>{{Block::From::rank, 0, job.count, before}};
                        },
                    .bus_factor = whole,
                    .call = shift_by_one});
}
