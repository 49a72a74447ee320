#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>

#include "base/clock.h"
#include "topo/caches.h"
#include "topo/cores.h"
#include "tutti/child.h"
#include "tutti/tune.h"

namespace tutti::tune {
namespace {

constexpr Nanoseconds kPatience = 120 * kSecond;  // an experiment takes a fraction of one, on a machine of its own

// Ours without what would change the measurement.
std::vector<std::string> environment_of(const Experiment& e) {
  std::vector<std::string> entries;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    bool ours = false;
    for (const std::string_view name : {"TUTTI_ALGO=", "TUTTI_TRANSPORT=", "TUTTI_LANES=", "TUTTI_TILE=",
                                        "TUTTI_TUNING_FILE=", "TUTTI_PROTO=", "TUTTI_DEBUG="})
      ours |= text.starts_with(name);
    if (!ours) entries.emplace_back(text);
  }
  entries.push_back(fmt::format("TUTTI_ALGO=all_reduce:{}", e.algorithm));
  entries.push_back(fmt::format("TUTTI_TRANSPORT={}", e.transport));
  entries.push_back(fmt::format("TUTTI_LANES={}", e.lanes));
  entries.push_back(fmt::format("TUTTI_TILE={}", e.tile_bytes));
  return entries;
}

// All that the child writes to both streams, until it closes them or `deadline` passes.
struct Output {
  std::string out, err;
  bool complete = false;
};
Output read_output(const run::Child& child, Nanoseconds deadline) {
  Output output;
  pollfd streams[2] = {{child.out.get(), POLLIN, 0}, {child.err.get(), POLLIN, 0}};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    const Nanoseconds now = steady_now();
    if (now >= deadline) return output;
    (void)::poll(streams, 2, static_cast<int>((deadline - now) / kMillisecond) + 1);
    for (int i = 0; i < 2; ++i) {
      if (streams[i].fd < 0 || streams[i].revents == 0) continue;
      char block[4096];
      const ssize_t got = ::read(streams[i].fd, block, sizeof block);
      if (got > 0) (i == 0 ? output.out : output.err).append(block, static_cast<size_t>(got));
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) streams[i].fd = -1;
    }
  }
  output.complete = true;
  return output;
}

}  // namespace

Result<std::vector<Observation>> run(const Experiment& e, const std::string& program) {
  run::ChildSpec spec{.file = program,
                      .arguments = {program, "run", "-n", std::to_string(e.nranks), "--", program, "tune-rank"},
                      .environment = environment_of(e),
                      .take_output = true};
  for (const uint64_t bytes : e.bytes) spec.arguments.push_back(std::to_string(bytes));
  TUTTI_TRY_ASSIGN(const run::Child child, run::start_child(spec));
  const Output output = read_output(child, steady_now() + kPatience);
  if (!output.complete) ::kill(-child.pid, SIGTERM);  // the launcher ends its ranks
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) continue;
  if (!output.complete || status != 0)
    return fail(tuttiSystemError, "measuring {} over {} with {} ranks failed: {}", e.algorithm, e.transport, e.nranks,
                output.complete ? output.err : "it takes too long");

  Facts facts;
  facts.nranks = Rank{e.nranks};
  facts.links = e.transport == "shm" ? LinkKind::mapped : LinkKind::tcp_one_host;
  const CoreSet cores = usable_cores();
  facts.crowded_ranks = e.nranks;
  facts.crowded_cores = count_cores({&cores, 1});
  facts.l2_bytes = machine_caches().l2_bytes;
  std::vector<Observation> observations;
  std::istringstream lines(output.out);
  for (Observation o; lines >> o.bytes >> o.tile_bytes >> o.lanes >> o.seconds; observations.push_back(o)) {
    o.algorithm = find_algorithm(e.algorithm, Collective::all_reduce);
    o.facts = facts;
  }
  if (observations.size() != e.bytes.size())
    return fail(tuttiSystemError, "measuring {} over {} gave {} of {} times", e.algorithm, e.transport,
                observations.size(), e.bytes.size());
  return observations;
}

}  // namespace tutti::tune
