#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/config.h"
#include "tutti/commands.h"

namespace tutti {
namespace {

// Words wrapped to `width`, every line but the first behind `indent` blanks.
std::string wrapped(std::string_view text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (column > indent && column + 1 + end > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

int print_table() {
  constexpr size_t kIndent = 4, kWidth = 100;
  Result<Config> config = config_from_environment();
  for (const ConfigVariable& v : config_variables()) {
    fmt::print("{}={}", v.name, v.type);
    if (!v.default_value.empty()) fmt::print("  (default {})", v.default_value);
    if (config.ok() && config->is_set(v.name)) fmt::print("  [set to {}]", v.show(*config));
    fmt::print("\n{}{}\n", std::string(kIndent, ' '), wrapped(v.help, kIndent, kWidth));
  }
  if (config.ok()) return 0;
  std::fflush(stdout);
  fmt::print(stderr, "tutti env: the environment of this shell is refused: {}\n", config.status().message());
  return 1;
}

// A '|' would end a cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string code(std::string_view text) { return text.empty() ? "" : "`" + cell(text) + "`"; }

}  // namespace

std::string environment_as_markdown() {
  std::string out =
      "# Environment variables\n"
      "\n"
      "This page is printed by `tutti env --markdown` from the one table in src/base/config.cc; `tutti env` prints "
      "the\n"
      "same for a terminal, with the values that are set. An unknown `TUTTI_` name or a bad value is an error that "
      "says\n"
      "what is allowed.\n"
      "\n"
      "| variable | value | default | meaning |\n"
      "|---|---|---|---|\n";
  for (const ConfigVariable& v : config_variables())
    out += fmt::format("| `{}` | {} | {} | {} |\n", v.name, code(v.type), code(v.default_value), cell(v.help));
  out +=
      "\n"
      "## Set by launchers\n"
      "\n"
      "`tuttiCommInitFromEnv` and the `*_perf` programs read who and where they are from the first of these sets that "
      "is\n"
      "there. A set that is there in part is an error that names what is missing; so is another set that gives a\n"
      "different rank or size, unless it belongs to the job around the launcher: the variables of torchrun and `tutti "
      "run`,\n"
      "told by `LOCAL_WORLD_SIZE`, win over all others, those of Open MPI and MPICH over Slurm's. A `RANK` that a "
      "person "
      "or a\n"
      "script sets wins without `LOCAL_WORLD_SIZE` only over a Slurm batch script's and over a job of one process.\n"
      "\n"
      "| launcher | variables |\n"
      "|---|---|\n"
      "| torchrun, `tutti run` | `RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`, `LOCAL_RANK`, `LOCAL_WORLD_SIZE` "
      "|\n"
      "| Open MPI | `OMPI_COMM_WORLD_RANK`, `OMPI_COMM_WORLD_SIZE`, `OMPI_COMM_WORLD_LOCAL_RANK` |\n"
      "| Slurm | `SLURM_PROCID`, `SLURM_NTASKS`, `SLURM_LOCALID`, `SLURM_JOB_ID` |\n"
      "| MPICH and others with PMI | `PMI_RANK`, `PMI_SIZE`, `MPI_LOCALRANKID` |\n";
  return out;
}

Action add_env_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("env", "List the environment variables, and which are set");
  auto markdown = std::make_shared<bool>(false);
  command->add_flag("--markdown", *markdown, "print docs/env.md");
  return [markdown] {
    if (!*markdown) return print_table();
    fmt::print("{}", environment_as_markdown());
    return 0;
  };
}

}  // namespace tutti
