#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <memory>

#include "topo/caches.h"
#include "topo/cores.h"
#include "tune/tuner.h"
#include "tutti/commands.h"

namespace tutti {
namespace {

constexpr uint32_t kMostRanks = 4096;
constexpr uint64_t kMostBytes = uint64_t{1} << 60;  // as the perf tools

struct ExplainOptions {
  std::string collective = "all_reduce", transport, bytes, tuning_file;  // empty: not given
  uint32_t ranks = 2, hosts = 1, cores = 0;
};

// Which options contradict each other.
Status check(const ExplainOptions& options, Collective collective) {
  if (options.hosts > options.ranks)
    return invalid_argument("{} ranks cannot be on {} hosts; --hosts may be 1 to {}", options.ranks, options.hosts,
                            options.ranks);
  if (options.hosts > 1 && options.transport == "shm")
    return invalid_argument("--transport shm does not reach from host to host; leave it out, or give --hosts 1");
  if (collective == Collective::barrier && !options.bytes.empty())
    return invalid_argument("--bytes {}: a barrier has no data; leave it out", options.bytes);
  const bool pair = collective == Collective::send || collective == Collective::recv;
  if (pair && options.ranks != 2)
    return invalid_argument("-n {}: {} is between 2 ranks", options.ranks, name_of(collective));
  return {};
}

// What a link of shared memory carries: its slots, which share 2 MiB among a host's ranks (transports/shm/layout.h,
// which the program does not see; tests/tools holds the two together).
uint64_t mapped_message_bytes(uint32_t ranks, const Config& config) {
  const uint64_t by_ranks = std::clamp<uint64_t>((uint64_t{2} << 20) / std::bit_ceil(ranks), 32 << 10, 256 << 10);
  return config.tile_bytes.value_or(by_ranks);
}

// What ranks would find out of each other in the job that was described.
Result<Facts> facts_of(const ExplainOptions& options, const Config& config) {
  Facts facts;
  facts.nranks = Rank{options.ranks};
  if (options.hosts > 1) {
    facts.links = LinkKind::tcp_between_hosts;
    if (options.ranks % options.hosts == 0) facts.ranks_per_node = options.ranks / options.hosts;
    if (options.transport == "tcp")
      facts.near_links = LinkKind::tcp_one_host;
    else if (options.ranks > options.hosts)
      facts.max_message_bytes = mapped_message_bytes((options.ranks + options.hosts - 1) / options.hosts, config);
  } else if (options.transport == "tcp") {
    facts.links = LinkKind::tcp_one_host;
  } else {
    facts.max_message_bytes = mapped_message_bytes(options.ranks, config);
  }
  const CoreSet own = usable_cores();
  facts.crowded_cores = options.cores != 0 ? options.cores : count_cores({&own, 1});
  facts.crowded_ranks = (options.ranks + options.hosts - 1) / options.hosts;
  const Caches& caches = machine_caches();
  facts.l2_bytes = caches.l2_bytes;
  facts.parameters = built_in_parameters(caches.last_level_caches > 1 ? MachineClass::several_last_level_caches
                                                                      : MachineClass::one_last_level_cache);
  if (!options.tuning_file.empty()) {
    TUTTI_TRY_ASSIGN(facts.parameters, read_parameters(options.tuning_file, facts.parameters));
  }
  return facts;
}

Status explain(const ExplainOptions& given) {
  ExplainOptions options = given;
  TUTTI_TRY_ASSIGN(const Collective collective, collective_option(options.collective));
  TUTTI_TRY(check(options, collective));
  if (options.bytes.empty()) options.bytes = collective == Collective::barrier ? "0" : "1M";
  const Result<uint64_t> bytes = parse_bytes(options.bytes);
  if (!bytes.ok()) return invalid_argument("--bytes: {}", bytes.status().message());
  if (bytes.value() > kMostBytes)
    return invalid_argument("--bytes {}: it may be 0 to {}G", options.bytes, kMostBytes >> 30);
  TUTTI_TRY_ASSIGN(const Config config, config_from_environment());
  if (options.tuning_file.empty()) options.tuning_file = config.tuning_file;
  TUTTI_TRY_ASSIGN(const Facts facts, facts_of(options, config));
  TUTTI_TRY_ASSIGN(const Tuner tuner, Tuner::create(config, facts));
  TUTTI_TRY_ASSIGN(const Choice choice, tuner.choose(collective, Rank{0}, bytes.value()));
  fmt::print("{} of {} bytes over {} ranks, links: {}, {} ranks on {} cores of a host, {}\n", name_of(collective),
             bytes.value(), options.ranks, name_of(facts.links), facts.crowded_ranks, facts.crowded_cores,
             options.tuning_file.empty() ? "built-in costs" : "costs of " + options.tuning_file);
  fmt::print("{}\n", to_text(tuner.candidates(collective, Rank{0}, bytes.value()), choice));
  return {};
}

}  // namespace

Action add_explain_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("explain", "Print what an operation is predicted to take by each algorithm, and the choice");
  auto options = std::make_shared<ExplainOptions>();
  command->add_option("-n,--nranks", options->ranks, "number of ranks")
      ->check(CLI::Range(1u, kMostRanks))
      ->option_text("N=2");
  const CLI::Option* bytes = command->add_option("--bytes", options->bytes, "size of the whole vector, with K, M or G")
                                 ->option_text("BYTES=1M");
  command->add_option("--collective", options->collective, "all_reduce, broadcast, ...")
      ->option_text("NAME=all_reduce");
  command->add_option("--transport", options->transport, "shm or tcp; not given: shm on one host")
      ->check(CLI::IsMember({"shm", "tcp"}))
      ->option_text("NAME");
  command->add_option("--hosts", options->hosts, "hosts that the ranks are spread over evenly; more than one: tcp")
      ->check(CLI::Range(1u, kMostRanks))
      ->option_text("H=1");
  command->add_option("--cores", options->cores, "cores of a host that its ranks share; not given: this host's")
      ->check(CLI::Range(1u, kMostRanks))
      ->option_text("C");
  const CLI::Option* tuning =
      command
          ->add_option("--tuning", options->tuning_file, "costs, as tutti tune writes them; else TUTTI_TUNING_FILE's")
          ->option_text("FILE");
  return [options, bytes, tuning] {
    Status status;
    for (const auto& [option, value] : {std::pair{bytes, &options->bytes}, {tuning, &options->tuning_file}})
      if (option->count() > 0 && value->empty())
        status = invalid_argument("{} is given no value; leave it out, or write --bytes 1M, --tuning FILE",
                                  option->get_name());
    if (status.ok()) status = explain(*options);
    if (status.ok()) return 0;
    fmt::print(stderr, "tutti explain: {}\n", status.message());
    return status.code() == tuttiInvalidArgument ? kUsageStatus : 1;
  };
}

}  // namespace tutti
