// Commands: the subcommands of `tutti`. Each adds itself to the command line and says what to do when it is given.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "base/status.h"
#include "base/types.h"

namespace tutti {

// Runs after parsing; returns the exit status.
using Action = std::function<int()>;

// `after_dashes`: what stands behind the first --, if there is one.
Action add_run_command(CLI::App& app, const std::vector<std::string>& after_dashes, bool has_dashes);
Action add_plan_command(CLI::App& app);
Action add_explain_command(CLI::App& app);
Action add_tune_command(CLI::App& app);
Action add_tune_rank_command(CLI::App& app);
Action add_topo_command(CLI::App& app);
Action add_doctor_command(CLI::App& app);
Action add_env_command(CLI::App& app);
Action add_version_command(CLI::App& app);

// "tutti 0.1.0, library 0.1.0\n": of this program, and of the library that it runs with.
std::string versions();

// What --collective names; the error lists what it may be.
Result<Collective> collective_option(const std::string& name);

// docs/env.md, from the table of variables.
std::string environment_as_markdown();

constexpr int kUsageStatus = 2;  // exit status for a wrong command line

}  // namespace tutti
