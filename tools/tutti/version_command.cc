#include <fmt/format.h>

#include "tutti/commands.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

std::string version_text(int code) { return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100); }

}  // namespace

std::string versions() {
  int library = 0;
  const bool known = tuttiGetVersion(&library) == tuttiSuccess;
  return fmt::format("tutti {}, library {}\n", version_text(TUTTI_VERSION_CODE),
                     known ? version_text(library) : "unknown");
}

Action add_version_command(CLI::App& app) {
  app.add_subcommand("version", "Print the version of this program and of the library it runs with");
  return [] {
    fmt::print("{}", versions());
    return 0;
  };
}

}  // namespace tutti
