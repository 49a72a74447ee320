#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "tutti/commands.h"
#include "tutti/run.h"

namespace tutti {
namespace {

constexpr int kMostRanks = 4096;

int exit_status_of_failure(const Status& status) {
  if (status.code() == tuttiInvalidArgument) return run::kNotFound;
  return status.code() == tuttiInvalidUsage ? run::kNotExecutable : 1;
}

int execute(const run::Spec& spec, const std::vector<std::string>& before_dashes) {
  const auto complain = [](std::string_view what) {
    fmt::print(stderr, "tutti run: {}\n", what);
    return kUsageStatus;
  };
  // CLI11 keeps what it does not know for the program. The program's own options stand behind its name.
  if (!before_dashes.empty() && before_dashes[0].starts_with('-'))
    return complain(fmt::format("unknown option {} before the program (see tutti run --help)", before_dashes[0]));
  if (spec.nranks == 0) return complain("--nranks is required (see tutti run --help)");
  if (spec.command.empty()) return complain("no program given; write: tutti run -n 4 -- program arguments");
  for (const std::string& entry : spec.environment)
    if (entry.find('=') == std::string::npos || entry[0] == '=')
      return complain(fmt::format("--env '{}' is not NAME=value", entry));
  const Result<int> status = run::run_ranks(spec);
  if (status.ok()) return status.value();
  complain(status.status().message());
  return exit_status_of_failure(status.status());
}

}  // namespace

Action add_run_command(CLI::App& app, const std::vector<std::string>& after_dashes, bool has_dashes) {
  CLI::App* command = app.add_subcommand("run", "Start the ranks of this host: tutti run -n 4 -- program arguments");
  auto spec = std::make_shared<run::Spec>();
  // Looked at by execute(): an option that is misspelt is to be told first, even where it was this one.
  command->add_option("-n,--nranks", spec->nranks, "number of ranks; required")
      ->check(CLI::Range(1, kMostRanks))
      ->option_text("N");
  command->add_option("--env", spec->environment, "set an environment variable for the ranks; repeatable")
      ->option_text("NAME=VALUE")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command->add_flag("--label", spec->label, "begin every line of the ranks' output with [rank]");
  command
      ->add_option("--timeout-kill", spec->grace_ms,
                   "milliseconds that ranks have to end when one failed, before SIGTERM, and again before SIGKILL")
      ->check(CLI::Range(0, 1 << 30))
      ->option_text("MS=5000");
  command->footer(
      "Sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and TUTTI_JOB_ID.\n"
      "Ends with the status of the rank that failed first (128 + signal when it was killed).");
  // Without dashes, everything from the first word that is no option of ours.
  command->prefix_command();
  return [spec, command, after_dashes, has_dashes] {
    const std::vector<std::string> before = command->remaining();
    spec->command = before;
    // Dashes behind the program's name are an argument of it.
    if (!before.empty() && has_dashes) spec->command.emplace_back("--");
    spec->command.insert(spec->command.end(), after_dashes.begin(), after_dashes.end());
    return execute(*spec, before);
  };
}

}  // namespace tutti
