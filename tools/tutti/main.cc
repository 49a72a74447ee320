// tutti: the command for everything that is not a measurement.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/config.h"
#include "tutti/commands.h"

namespace {

// What is wrong; where it is the command itself, which there are.
int refuse(const CLI::App& app, const std::vector<std::string>& words, std::string error) {
  std::vector<std::string> names;
  bool named = false;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) names.push_back(command->get_name());  // without a group it is hidden
    named |= !words.empty() && command->get_name() == words[0];
  }
  if (!named) {
    const std::string word = words.empty() ? std::string() : words[0];
    const std::string_view near = tutti::nearest_name(word, std::vector<std::string_view>(names.begin(), names.end()));
    error = fmt::format("{}{}; there are {}",
                        word.empty() ? "no command is given" : fmt::format("there is no command '{}'", word),
                        near.empty() ? "" : fmt::format(", did you mean {}?", near), fmt::join(names, ", "));
  }
  fmt::print(stderr, "tutti: {} (see tutti {}--help)\n", error, named ? words[0] + " " : "");
  return tutti::kUsageStatus;
}

int run(const std::vector<std::string>& words) {
  // What stands behind the first -- is another program's command line and is not looked at.
  const auto dashes = std::find(words.begin(), words.end(), "--");
  std::vector<std::string> ours(words.begin(), dashes);
  const std::vector<std::string> theirs(dashes == words.end() ? dashes : dashes + 1, words.end());

  CLI::App app("Tutti: start ranks, look at plans and choices, measure the machine, list the environment.", "tutti");
  app.require_subcommand(1);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as getopt's programs do
  app.set_version_flag("--version", tutti::versions);
  tutti::Action run_ranks = tutti::add_run_command(app, theirs, dashes != words.end());
  tutti::Action plan = tutti::add_plan_command(app);
  tutti::Action explain = tutti::add_explain_command(app);
  tutti::Action tune = tutti::add_tune_command(app);
  tutti::Action tune_rank = tutti::add_tune_rank_command(app);
  tutti::Action topo = tutti::add_topo_command(app);
  tutti::Action doctor = tutti::add_doctor_command(app);
  tutti::Action env = tutti::add_env_command(app);
  tutti::Action version = tutti::add_version_command(app);
  try {
    std::reverse(ours.begin(), ours.end());  // the order that CLI11 takes
    app.parse(ours);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::CallForVersion& call) {
    fmt::print("{}", call.what());
    return 0;
  } catch (const CLI::ParseError& error) {
    return refuse(app, words, error.what());
  }
  // Programs that run starts are to find it as it was. For the rest, a file that reaches ulimit -f is an error of
  // write(), and told.
  if (app.got_subcommand("run")) return run_ranks();
  std::signal(SIGXFSZ, SIG_IGN);
  if (!theirs.empty()) {
    fmt::print(stderr, "tutti: only tutti run takes words behind --, here '{}' (see tutti --help)\n", theirs[0]);
    return tutti::kUsageStatus;
  }
  if (app.got_subcommand("plan")) return plan();
  if (app.got_subcommand("explain")) return explain();
  if (app.got_subcommand("tune")) return tune();
  if (app.got_subcommand("tune-rank")) return tune_rank();
  if (app.got_subcommand("topo")) return topo();
  if (app.got_subcommand("doctor")) return doctor();
  if (app.got_subcommand("env")) return env();
  return version();
}

// What is left in stdio's buffer would fail unseen at the end of the process.
int flushed(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  fmt::print(stderr, "tutti: write to standard output: {}\n", std::strerror(errno));
  return status == 0 ? 1 : status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return flushed(run({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti: {}\n", error.what());
    return 1;
  }
}
