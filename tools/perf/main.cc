// perf_main: from the command line to the exit status.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "base/host.h"
#include "perf/bench.h"
#include "perf/print.h"
#include "perf/report_file.h"
#include "perf/sentinel.h"

namespace tutti::perf {
namespace {

constexpr int kSignalStatus = 128;  // as shells count
// Ranks that fail because another one did need a moment to notice and to say what they saw; after an interruption there
// is nothing to say.
constexpr Sentinel::Grace kAtOnce = {0, 0};
constexpr Sentinel::Grace kWhileRunning = {.after_failure = 5 * kSecond, .after_signal = kSecond};

// Everything the threads of one process share.
struct Process {
  const PerfCollective& collective;
  const Options& options;
  World world;
  Stop stop;
  RunRecord record;
  std::optional<ReportFile> report;  // of the process that writes it
  std::mutex mutex;                  // guards the following
  std::vector<std::string> errors;
  uint64_t wrong = 0;
};

// Ranks fail together when one does; the first few sentences tell the story.
void report_failure(Process& process, int rank, const Status& status) {
  constexpr size_t kMostSentences = 4;
  const std::lock_guard lock(process.mutex);
  if (process.stop.signal.load() != 0) return;
  const std::string who = rank < 0 ? std::string() : fmt::format(": rank {}", rank);
  process.errors.push_back(
      fmt::format("{}{} ({}, pid {}): {}", process.collective.program, who, host_name(), ::getpid(), status.message()));
  if (process.errors.size() <= kMostSentences) print_error(process.errors.back() + "\n");
}

Status run_rank(Process& process, int thread) {
  if (process.options.parallel_init) TUTTI_TRY(process.world.join(process.options, thread));
  const Member& member = process.world.member(thread);
  Bench bench(process.collective, process.options, member, process.stop, process.record);
  const Status status = bench.run();
  {
    const std::lock_guard lock(process.mutex);
    process.wrong += bench.wrong_here();
  }
  TUTTI_TRY(status);
  return library_status(tuttiCommFinalize(member.comm), "tuttiCommFinalize", member.comm);
}

void rank_thread(Process& process, Sentinel& sentinel, int thread) {
  const Status status = run_rank(process, thread);
  Member& member = process.world.member(thread);
  if (status.ok()) {
    tuttiCommDestroy(member.comm);
    return sentinel.finished();
  }
  report_failure(process, member.rank, status);
  if (member.comm != nullptr) tuttiCommAbort(member.comm);
  sentinel.failed();
}

// Only what changes a run: the whole environment may hold secrets.
std::vector<std::string> relevant_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    for (const std::string_view prefix :
         {"TUTTI_", "NCCL_TESTS_", "RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "MASTER_", "OMPI_COMM_WORLD_",
          "SLURM_JOB_ID=", "SLURM_NTASKS=", "PMI_RANK=", "PMI_SIZE="})
      if (text.starts_with(prefix)) entries.emplace_back(text);
  }
  return entries;
}

// The process that has rank 0 writes the report; it knows that before it has met anybody.
bool writes_report(const Options& options) {
  if (options.json_file.empty()) return false;
  // The library's order; hydra's ranks in a Slurm job may all have inherited SLURM_PROCID=0.
  const bool hydra = std::getenv("MPI_LOCALNRANKS") != nullptr;
  for (const char* name :
       {"RANK", "OMPI_COMM_WORLD_RANK", hydra ? "PMI_RANK" : "SLURM_PROCID", "SLURM_PROCID", "PMI_RANK"})
    if (const char* rank = std::getenv(name)) return std::string_view(rank) == "0";
  return true;
}

int exit_status(Process& process, bool all_failed_to_meet, bool everybody_ended) {
  if (const int signal = process.stop.signal.load(); signal != 0) return kSignalStatus + signal;
  if (all_failed_to_meet || !everybody_ended || !process.errors.empty()) return 1;
  const Footer& footer = process.record.footer;
  return process.wrong == 0 && footer.wrong == 0 && footer.bandwidth_okay() ? 0 : 1;
}

// Every process comes to the same conclusion, before any rank has begun.
Status check_root(Process& process) {
  const int root = process.options.roots[0], nranks = process.world.member(0).nranks;
  if (!process.collective.rooted || process.options.all_roots || root < nranks) return {};
  return invalid_argument("--root {}: the ranks are 0 to {}", root, nranks - 1);
}

// Meets, runs the threads, and waits for them. False: some could not be waited for.
bool run_ranks(Process& process, Sentinel& sentinel, bool& met) {
  const int threads = process.options.threads;
  std::vector<std::thread> ranks;
  const auto no_thread = [&](const std::system_error& e) {
    report_failure(process, -1, system_error("starting a thread", e.code().value(), "raise ulimit -u or ulimit -v"));
    sentinel.failed();
  };
  // Meeting may take long, so it is done beside the main thread, which listens to signals.
  const auto meet = [&] {
    Status status = process.world.meet(process.options);
    if (status.ok()) status = check_root(process);
    if (status.ok() && !process.options.parallel_init) status = process.world.join_all(process.options);
    met = status.ok();
    if (met) return sentinel.finished();
    report_failure(process, -1, status);
    sentinel.failed();
  };
  std::thread first;
  try {
    first = std::thread(meet);
  } catch (const std::system_error& e) {
    no_thread(e);
    return true;
  }
  if (!sentinel.wait(1, process.stop, kAtOnce)) {
    first.detach();
    return false;
  }
  first.join();
  if (!met) return true;
  for (int t = 0; t < threads; ++t) {
    try {
      ranks.emplace_back(rank_thread, std::ref(process), std::ref(sentinel), t);
    } catch (const std::system_error& e) {
      no_thread(e);
    }
  }
  const bool everybody_ended = sentinel.wait(threads, process.stop, kWhileRunning);
  for (std::thread& rank : ranks) everybody_ended ? rank.join() : rank.detach();
  return everybody_ended;
}

// The report, if this process writes one.
Status write_report_of(Process& process, RunFrame& frame) {
  if (!process.report) return {};
  frame.end_time = now_text();
  frame.errors.insert(frame.errors.end(), process.errors.begin(), process.errors.end());
  const RunRecord& record = process.record;
  return write_report(*process.report, json_text(json_report(frame, record.header, record.rows, record.footer)));
}

int run(Process& process, int argc, char** argv, Sentinel& sentinel) {
  RunFrame frame{{argv, argv + argc}, relevant_environment(), now_text(), {}, {}};
  bool met = false;
  const bool everybody_ended = run_ranks(process, sentinel, met);
  if (!everybody_ended) {
    // A detached thread may still be writing the record: no report, and no ordinary exit, which would run destructors
    // under its feet.
    if (process.report) withdraw(*process.report);
    const int signal = process.stop.signal.load();
    print_error(fmt::format(
        "{}: {}\n", process.collective.program,
        signal != 0 ? "interrupted" : "a rank did not return from the library after the failure; ending the process"));
    std::fflush(nullptr);
    ::_exit(signal != 0 ? kSignalStatus + signal : 1);
  }
  int status = exit_status(process, !met, everybody_ended);
  if (process.stop.signal.load() != 0) {
    frame.errors.push_back(fmt::format("interrupted by signal {}", process.stop.signal.load()));
    print_error(fmt::format("{}: interrupted\n", process.collective.program));
  }
  const Status written = write_report_of(process, frame);
  if (!written.ok()) {
    report_failure(process, -1, written);
    if (status == 0) status = 1;
  }
  return status;
}

// Before the measuring, and before signals are only looked at between operations: a pipe may have no reader yet.
Status claim_report(Process& process) {
  if (!writes_report(process.options)) return {};
  TUTTI_TRY_ASSIGN(process.report, claim_report_file(process.options.json_file));
  return print_out(fmt::format("# Writing JSON output to {}\n", process.report->path));
}

std::string versions(std::string_view program) {
  int library = 0;
  const bool known = tuttiGetVersion(&library) == tuttiSuccess;
  return fmt::format("{} {}, library {}\n", program, version_text(TUTTI_VERSION_CODE),
                     known ? version_text(library) : "unknown");
}

// A standard stream that is closed gets a descriptor on which writing fails: else the next socket would get its number,
// and the table would go to a peer.
void occupy_standard_streams() {
  int lowest = -1;
  do lowest = ::open("/dev/null", O_RDONLY);
  while (lowest >= 0 && lowest <= STDERR_FILENO);
  if (lowest > STDERR_FILENO) ::close(lowest);
}

}  // namespace

int perf_main(int argc, char** argv, const PerfCollective& collective) {
  occupy_standard_streams();
  const ParsedOptions parsed = parse_options(argc, argv, collective.reduces, collective.rooted);
  // A file that reaches ulimit -f is an error of write(), and told.
  std::signal(SIGXFSZ, SIG_IGN);
  const auto complain = [&](const Status& status) {
    print_error(fmt::format("{}: {}\n", collective.program, status.message()));
  };
  if (parsed.exit_now && parsed.exit_status != 0) {
    print_error(parsed.text);
    return parsed.exit_status;
  }
  if (parsed.exit_now || parsed.version) {
    const Status status = print_out(parsed.version ? versions(collective.program) : parsed.text);
    if (!status.ok()) complain(status);
    return status.ok() ? 0 : 1;
  }
  constexpr int kKeepWhatIsSet = 0;
  if (parsed.options.on_gpu) ::setenv("TUTTI_DEVICE", "cuda", kKeepWhatIsSet);
  Process process{.collective = collective, .options = parsed.options};
  if (const Status status = claim_report(process); !status.ok()) {
    if (process.report) withdraw(*process.report);
    complain(status);
    return 2;
  }
  Result<Sentinel> sentinel = Sentinel::create();
  if (!sentinel.ok()) {
    complain(sentinel.status());
    return 1;
  }
  return run(process, argc, argv, *sentinel);
}

}  // namespace tutti::perf
