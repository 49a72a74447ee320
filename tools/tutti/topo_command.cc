#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "base/host.h"
#include "topo/probe.h"
#include "topo/write.h"
#include "tutti/commands.h"
#include "tutti/topo.h"

namespace tutti {
namespace {

constexpr uint32_t kMostNodes = 4096;

struct TopoOptions {
  std::string file, format = "text";
  uint32_t nodes = 1;
};

// "dir/x.xml" is shown as "x.xml".
std::string short_name(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  const size_t slash = path.find_last_of('/', end);
  return slash == std::string::npos ? path.substr(0, end + 1) : path.substr(slash + 1, end - slash);
}

Status show(const TopoOptions& options) {
  Machine machine;
  std::string title = host_name();
  if (options.file.empty()) {
    TUTTI_TRY_ASSIGN(machine, probe_machine());
  } else {
    TUTTI_TRY_ASSIGN(TopologyFile file, read_topology(options.file));
    title = short_name(options.file);
    if (file.format == TopologyFormat::nccl_graph_xml) {
      if (options.format != "text" && options.format != "svg")
        return invalid_argument("{} holds the order of channels, which is shown as text or svg, not as {}",
                                options.file, options.format);
      fmt::print("{}", options.format == "svg" ? to_svg(title, file.graphs) : to_text(title, file.graphs));
      return {};
    }
    machine = std::move(file.machine);
  }
  if (options.format == "json") {
    fmt::print("{}", to_json(machine));
  } else if (options.format == "xml") {
    fmt::print("{}", to_nccl_xml(machine));
  } else {
    const TopologyView view(title, std::move(machine), options.nodes);
    fmt::print("{}", options.format == "svg" ? to_svg(view) : options.format == "dot" ? to_dot(view) : to_text(view));
  }
  return {};
}

}  // namespace

Action add_topo_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("topo", "Show this machine, or one from a file, and the orders that fit it");
  auto options = std::make_shared<TopoOptions>();
  command
      ->add_option("--file", options->file,
                   "NCCL's topology or graph XML, hwloc's XML, a folder with a dump of /sys, or JSON as --format json")
      ->option_text("FILE");
  command->add_option("--format", options->format, "text, svg, dot, json, or xml as NCCL_TOPO_FILE")
      ->check(CLI::IsMember({"text", "svg", "dot", "json", "xml"}))
      ->option_text("FORMAT=text");
  command->add_option("--nodes", options->nodes, "as many of these machines: the order across them")
      ->check(CLI::Range(1u, kMostNodes))
      ->option_text("N=1");
  return [options] {
    const Status status = show(*options);
    if (status.ok()) return 0;
    fmt::print(stderr, "tutti topo: {}\n", status.message());
    return status.code() == tuttiInvalidArgument ? kUsageStatus : 1;
  };
}

}  // namespace tutti
