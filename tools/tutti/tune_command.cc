#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/config.h"
#include "base/host.h"
#include "topo/caches.h"
#include "topo/cores.h"
#include "tutti/commands.h"
#include "tutti/tune.h"

namespace tutti {
namespace {

struct TuneOptions {
  uint32_t ranks = 0;  // 0: as many as there are cores, at least 2
  std::string file;
  int rounds = 4;
  bool verbose = false;
};

// In the order in which they are told apart: first what has a core for each rank and shared memory, then what is added
// by sharing cores, then TCP.
constexpr std::string_view kMappedFields[] = {
    "mapped_latency_ns", "mapped_message_ns", "mapped_send_ns_per_kib", "fold_ns_per_kib",
    "store_ns_per_kib",  "step_ns",           "operation_ns",           "spill",
    "handover_ns"};
constexpr std::string_view kTcpFields[] = {"tcp_one_host_latency_ns", "tcp_one_host_transit_ns_per_kib",
                                           "tcp_one_host_message_ns", "tcp_one_host_send_ns_per_kib",
                                           "tcp_one_host_receive_ns_per_kib"};

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

void print_fit(const std::vector<tune::Observation>& observations, const Parameters& parameters) {
  fmt::print(stderr, "{:>5} {:<20} {:>5} {:>8} {:>10} {:>12} {:>12} {:>6}\n", "ranks", "algorithm", "lanes", "tile",
             "bytes", "measured us", "predicted us", "ratio");
  for (const tune::Observation& o : observations) {
    const double ratio = tune::ratio(o, parameters);
    fmt::print(stderr, "{:>5} {:<20} {:>5} {:>8} {:>10} {:>12.2f} {:>12.2f} {:>6.2f}\n",
               static_cast<uint32_t>(o.facts.nranks), o.algorithm->name, o.lanes, o.tile_bytes, o.bytes,
               o.seconds * 1e6, o.seconds * ratio * 1e6, ratio);
  }
}

struct Times {
  std::vector<tune::Observation> mapped, tcp;
};

// In rounds, so that what disturbs the machine for a while does not spoil one experiment; the least time counts.
Result<Times> measure(uint32_t nranks, uint32_t cores, int rounds) {
  std::error_code none;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", none).string();
  if (program.empty()) return fail(tuttiSystemError, "/proc/self/exe cannot be read; is /proc mounted?");
  Times times;
  for (int round = 0; round < rounds; ++round) {
    size_t mapped_at = 0, tcp_at = 0;
    for (const tune::Experiment& experiment : tune::plan_experiments(nranks, cores)) {
      const bool is_mapped = experiment.transport == "shm";
      TUTTI_TRY_ASSIGN(const std::vector<tune::Observation> observed, tune::run(experiment, program));
      for (const tune::Observation& o : observed) {
        std::vector<tune::Observation>& all = is_mapped ? times.mapped : times.tcp;
        const size_t at = is_mapped ? mapped_at++ : tcp_at++;
        if (round == 0) all.push_back(o);
        all[at].seconds = std::min(all[at].seconds, o.seconds);
      }
    }
  }
  return times;
}

void print_misfit(std::string_view links, const std::vector<tune::Observation>& observations,
                  const Parameters& parameters, const Parameters& start) {
  fmt::print(stderr, "{}: {} times, predictions off by a factor of {:.2f} (with built-in costs {:.2f})\n", links,
             observations.size(), tune::misfit(observations, parameters), tune::misfit(observations, start));
}

Status tune_here(const TuneOptions& options) {
  TUTTI_TRY(config_from_environment());
  std::ofstream file;
  if (!options.file.empty()) {
    file.open(options.file);
    if (!file) return system_error(fmt::format("open {}", options.file), errno);
  }
  const CoreSet own = usable_cores();
  const uint32_t cores = count_cores({&own, 1});
  const uint32_t nranks = options.ranks != 0 ? options.ranks : std::max(cores, 2u);
  TUTTI_TRY_ASSIGN(const Times times, measure(nranks, cores, options.rounds));

  const Parameters& start =
      built_in_parameters(machine_caches().last_level_caches > 1 ? MachineClass::several_last_level_caches
                                                                 : MachineClass::one_last_level_cache);
  Parameters parameters = tune::fit(times.mapped, start, kMappedFields);
  parameters = tune::fit(times.tcp, parameters, kTcpFields);
  if (options.verbose) {
    print_fit(times.mapped, parameters);
    print_fit(times.tcp, parameters);
  }
  print_misfit("shared memory", times.mapped, parameters, start);
  print_misfit("tcp", times.tcp, parameters, start);

  const std::pair<std::string, std::string> notes[] = {
      {"host", host_name()},
      {"machine", fmt::format("{}, {} cores", processor(), cores)},
      {"measured",
       fmt::format("{} ranks over shared memory and TCP on one host; TCP between hosts is built in", nranks)}};
  const std::string text = to_json(parameters, notes);
  if (options.file.empty()) {
    fmt::print("{}", text);
    return {};
  }
  file << text;
  file.close();
  if (!file) return system_error(fmt::format("write {}", options.file), errno);
  fmt::print(stderr, "written to {}; use it with TUTTI_TUNING_FILE={} on all ranks\n", options.file, options.file);
  return {};
}

}  // namespace

std::vector<tune::Experiment> tune::plan_experiments(uint32_t nranks, uint32_t cores) {
  constexpr uint64_t kSmall = 8, kMedium = 8 * 1024, kLarge = 256 * 1024, kHuge = 4 << 20;
  std::vector<Experiment> all;
  const auto add = [&](std::string_view transport, uint32_t n, std::string_view algorithm, uint32_t lanes,
                       uint64_t tile, std::vector<uint64_t> bytes) {
    all.push_back({n, transport, algorithm, lanes, tile, std::move(bytes)});
  };
  const uint32_t crowd = std::max(2 * cores, nranks);
  for (const uint32_t n : {nranks, crowd}) {
    for (const std::string_view algorithm : {"ring", "all_pairs", "all_pairs_one_shot", "recursive_doubling", "tree"})
      add("shm", n, algorithm, 1, 64 << 10, {kSmall, 1024, kMedium, 64 << 10, kLarge, 1 << 20, kHuge});
    // Tiles beyond the second-level cache, small ones, and several lanes.
    for (const uint64_t tile : {8 << 10, 256 << 10}) add("shm", n, "all_pairs", 1, tile, {kLarge, kHuge});
    add("shm", n, "ring", 2, 16 << 10, {kLarge, kHuge});
    if (crowd == nranks) break;
  }
  for (const std::string_view algorithm : {"ring", "all_pairs", "all_pairs_one_shot", "recursive_doubling"})
    add("tcp", nranks, algorithm, 1, 256 << 10, {kSmall, 1024, kMedium, 64 << 10, kLarge, 1 << 20, kHuge});
  for (const uint64_t tile : {32 << 10, 1 << 20}) add("tcp", nranks, "all_pairs", 1, tile, {kHuge});
  for (const uint32_t lanes : {2, 4})
    for (const uint64_t tile : {64 << 10, 256 << 10}) add("tcp", nranks, "ring", lanes, tile, {kLarge, kHuge});
  if (crowd > nranks)
    for (const std::string_view algorithm : {"ring", "all_pairs", "recursive_doubling"})
      for (const uint64_t tile : {64 << 10, 256 << 10, 1 << 20})
        add("tcp", crowd, algorithm, 1, tile,
            tile == 256 << 10 ? std::vector{kSmall, kMedium, kLarge, kHuge} : std::vector{kHuge});
  return all;
}

Action add_tune_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tune", "Measure what links and cores cost here, for TUTTI_TUNING_FILE");
  auto options = std::make_shared<TuneOptions>();
  command->add_option("-n,--nranks", options->ranks, "number of ranks; not given: one for each core")
      ->check(CLI::Range(2u, 256u))
      ->option_text("N");
  command->add_option("-o,--output", options->file, "file to write; not given: print")->option_text("FILE");
  command->add_option("--rounds", options->rounds, "times to measure everything; the least of each time counts")
      ->check(CLI::Range(1, 100))
      ->option_text("R=4");
  command->add_flag("--verbose", options->verbose, "show every time and what is predicted for it");
  return [options] {
    const Status status = tune_here(*options);
    if (status.ok()) return 0;
    fmt::print(stderr, "tutti tune: {}\n", status.message());
    return 1;
  };
}

}  // namespace tutti
