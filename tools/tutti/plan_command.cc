#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "algorithms/algorithm.h"
#include "plan/dump.h"
#include "plan/verify.h"
#include "tutti/commands.h"

namespace tutti {
namespace {

constexpr uint32_t kMostRanks = 4096;
constexpr int kMostRank = kMostRanks - 1;

struct PlanOptions {
  std::string collective, algorithm, ranks = "4", format = "text";
  int rank = -1, root = 0;
  uint32_t lanes = 1;
  bool verify = false, has_root = false;  // has_root: --root was given
};

struct RankRange {
  uint32_t first, last;
};

Result<RankRange> parse_ranks(const std::string& text) {
  uint32_t first = 0, last = 0;
  char more = 0;
  const int fields = std::sscanf(text.c_str(), "%u..%u%c", &first, &last, &more);
  if (fields == 1 && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); }))
    last = first;
  if ((fields != 1 && fields != 2) || first < 1 || last < first || last > kMostRanks)
    return invalid_argument("-n '{}' is neither a number nor a range such as 1..64, from 1 to {}", text, kMostRanks);
  return RankRange{first, last};
}

// The rows that were asked for: all when neither name is given.
Result<std::vector<const Algorithm*>> chosen(const PlanOptions& options) {
  std::optional<Collective> collective;
  if (!options.collective.empty()) {
    TUTTI_TRY_ASSIGN(collective, collective_option(options.collective));
  }
  std::vector<const Algorithm*> rows;
  std::string names;
  for (const Algorithm& row : all_algorithms()) {
    if (collective && row.collective != *collective) continue;
    if (names.find(fmt::format(" {} ", row.name)) == std::string::npos) names += fmt::format(" {} ", row.name);
    if (options.algorithm.empty() || row.name == options.algorithm) rows.push_back(&row);
  }
  if (rows.empty())
    return invalid_argument("--algo '{}' is none of the algorithms{}:{}", options.algorithm,
                            collective ? fmt::format(" of {}", name_of(*collective)) : std::string(), names);
  return rows;
}

// Their root is the other rank.
bool is_pair(const Algorithm& row) { return row.collective == Collective::send || row.collective == Collective::recv; }

Status show(const PlanOptions& options) {
  if (options.collective.empty() || options.algorithm.empty())
    return invalid_argument("give --collective and --algo, such as --collective all_reduce --algo ring, or --verify");
  TUTTI_TRY_ASSIGN(const RankRange n, parse_ranks(options.ranks));
  if (n.first != n.last) return invalid_argument("-n {} is a range; ranges are for --verify", options.ranks);
  TUTTI_TRY_ASSIGN(const std::vector<const Algorithm*> rows, chosen(options));
  const Algorithm& row = *rows[0];
  const Shape shape{row.collective, Rank{n.first}, Rank{static_cast<uint32_t>(options.root)}, options.lanes};
  if (options.has_root && !has_root(row.collective) && !is_pair(row))
    return invalid_argument("--root {}: {} has no root; leave it out", options.root, name_of(row.collective));
  if (shape.root >= n.first) return invalid_argument("--root {}: the ranks are 0 to {}", options.root, n.first - 1);
  if (options.rank >= static_cast<int>(n.first))
    return invalid_argument("--rank {}: the ranks are 0 to {}", options.rank, n.first - 1);
  if (!row.applies(shape))
    return invalid_argument("{} has no plan for {} with -n {} and --lanes {}", row.name, name_of(row.collective),
                            n.first, options.lanes);
  if (options.rank >= 0) {
    if (options.format == "dot") return invalid_argument("a graph needs all ranks; leave out --rank, or ask for text");
    const Plan plan = row.plan(shape, Rank{static_cast<uint32_t>(options.rank)});
    fmt::print("{}", options.format == "json" ? to_json(plan) + "\n" : to_text(plan));
    return {};
  }
  const std::vector<Plan> plans = plans_of(shape, row.plan);
  fmt::print("{}", options.format == "json"  ? to_json(plans) + "\n"
                   : options.format == "dot" ? to_dot(plans)
                                             : to_text(plans));
  return {};
}

// All roots up to 8 ranks; beyond, the first, the last and one between.
std::vector<uint32_t> roots_of(const Algorithm& row, uint32_t n) {
  constexpr uint32_t kAllRoots = 8;
  if (!has_root(row.collective)) return {0};
  std::vector<uint32_t> roots;
  for (uint32_t r = 0; r < n; ++r)
    if (n <= kAllRoots || r == 0 || r == n / 2 || r == n - 1) roots.push_back(r);
  return roots;
}

// A send is right together with its receive: from rank 0 to rank 1, whatever the number of ranks.
std::vector<Plan> plans_to_verify(const Algorithm& row, const Shape& shape) {
  if (!is_pair(row)) return plans_of(shape, row.plan);
  const Algorithm* send = find_algorithm(row.name, Collective::send);
  const Algorithm* recv = find_algorithm(row.name, Collective::recv);
  return {send->plan({Collective::send, Rank{2}, Rank{1}, shape.lanes}, Rank{0}),
          recv->plan({Collective::recv, Rank{2}, Rank{0}, shape.lanes}, Rank{1})};
}

Status verify_row(const Algorithm& row, const RankRange& n, uint32_t lanes, size_t& shapes) {
  const RankRange range = is_pair(row) ? RankRange{std::max(n.first, 2u), std::min(n.last, 2u)} : n;
  for (uint32_t nranks = range.first; nranks <= range.last; ++nranks) {
    for (const uint32_t root : roots_of(row, nranks)) {
      const Shape shape{row.collective, Rank{nranks}, Rank{root}, lanes};
      if (!row.applies(shape)) continue;
      const Status status = verify(shape, plans_to_verify(row, shape));
      if (!status.ok()) return status.within(fmt::format("n = {}, root {}", nranks, root));
      ++shapes;
    }
  }
  return {};
}

Status verify_all(const PlanOptions& options) {
  const std::string_view ignored = options.rank >= 0          ? "--rank"
                                   : options.has_root         ? "--root"
                                   : options.format != "text" ? "--format"
                                                              : "";
  if (!ignored.empty())
    return invalid_argument("{} is for plans that are printed; --verify proves those of all ranks and roots", ignored);
  TUTTI_TRY_ASSIGN(const RankRange n, parse_ranks(options.ranks));
  TUTTI_TRY_ASSIGN(const std::vector<const Algorithm*> rows, chosen(options));
  Status first_failure;
  size_t all_shapes = 0;
  for (const Algorithm* row : rows) {
    size_t shapes = 0;
    const Status status = verify_row(*row, n, options.lanes, shapes);
    const std::string verdict = !status.ok()  ? "WRONG: " + std::string(status.message())
                                : shapes == 0 ? "no such shape"
                                              : fmt::format("right ({} shapes)", shapes);
    fmt::print("{:<20} {:<16} {}\n", row->name, name_of(row->collective), verdict);
    std::fflush(stdout);
    if (!status.ok() && first_failure.ok()) first_failure = status.within(row->name);
    all_shapes += shapes;
  }
  if (first_failure.ok() && all_shapes == 0)
    return invalid_argument("no algorithm applies to -n {} with --lanes {}", options.ranks, options.lanes);
  return first_failure;
}

}  // namespace

Result<Collective> collective_option(const std::string& name) {
  if (const std::optional<Collective> collective = parse_collective(name)) return *collective;
  std::string names;
  for (int c = 0; c < kCollectiveCount; ++c) names += fmt::format(" {}", name_of(static_cast<Collective>(c)));
  return invalid_argument("--collective '{}' is none of:{}", name, names);
}

Action add_plan_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plan", "Print the plans of an algorithm, or prove them right");
  auto options = std::make_shared<PlanOptions>();
  command->add_option("--collective", options->collective, "all_reduce, broadcast, ...")->type_name("NAME");
  command->add_option("--algo", options->algorithm, "ring, tree, ...")->type_name("NAME");
  command->add_option("-n,--nranks", options->ranks, "number of ranks; with --verify also a range, 1..64")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--rank", options->rank, "only this rank's plan")
      ->check(CLI::Range(0, kMostRank))
      ->option_text("R");
  CLI::Option* root = command->add_option("--root", options->root, "the root; of send and recv the other rank")
                          ->check(CLI::Range(0, kMostRank))
                          ->option_text("R=0");
  command->add_option("--lanes", options->lanes, "copies of the pattern side by side")
      ->check(CLI::Range(1, 16))
      ->option_text("L=1");
  command->add_option("--format", options->format, "text, json or dot")
      ->check(CLI::IsMember({"text", "json", "dot"}))
      ->option_text("FORMAT=text");
  command->add_flag("--verify", options->verify,
                    "prove the plans right: result, agreement, progress, memory, messages");
  return [options, root] {
    options->has_root = root->count() > 0;
    const Status status = options->verify ? verify_all(*options) : show(*options);
    if (status.ok()) return 0;
    fmt::print(stderr, "tutti plan: {}\n", status.message());
    return status.code() == tuttiInvalidArgument ? kUsageStatus : 1;
  };
}

}  // namespace tutti
