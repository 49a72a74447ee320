#include "cuda/sim_topology.h"

#include <charconv>

#include "topo/fabric.h"
#include "topo/read.h"

namespace tutti {
namespace {

constexpr int kMost = 64;

bool read_number(std::string_view& text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 1 || number > kMost) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool read_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

bool is_file(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".xml") || text.ends_with(".json");
}

Status read_node(const std::string& path, SimTopology& topology) {
  TUTTI_TRY_ASSIGN(TopologyFile file, read_topology(path));
  const auto gpus = static_cast<int>(file.machine.gpus.size());
  if (gpus < 1 || gpus > kMost)
    return invalid_usage("{} describes a machine of {} GPUs; a simulated node has 1 to {}", path, gpus, kMost);
  const Fabric fabric(file.machine);
  topology.file = path;
  topology.gpus_per_node = gpus;
  for (uint32_t a = 0; a < fabric.gpus(); ++a)
    for (uint32_t b = 0; b < fabric.gpus(); ++b) topology.paths.push_back(fabric.between_gpus(a, b).path_class);
  topology.machine = std::move(file.machine);
  return {};
}

}  // namespace

PathClass SimTopology::path_between(int a, int b) const {
  if (a == b) return PathClass::loc;
  if (node_of(a) != node_of(b)) return PathClass::net;
  if (!file.empty()) return paths[static_cast<size_t>(a % gpus_per_node * gpus_per_node + b % gpus_per_node)];
  return link == SimLink::nvlink ? PathClass::nvl : PathClass::phb;
}

Result<SimTopology> parse_sim_topology(std::string_view text) {
  SimTopology topology;
  if (text.empty()) return topology;
  std::string_view rest = text;
  bool good = true;
  if (rest.front() >= '0' && rest.front() <= '9') good = read_number(rest, topology.nodes) && read_word(rest, "x");
  if (good && is_file(rest)) {
    TUTTI_TRY(read_node(std::string(rest), topology));
    return topology;
  }
  if (good && read_word(rest, "pcie")) topology.link = SimLink::pcie;
  else good = good && read_word(rest, "nvlink");
  good = good && read_number(rest, topology.gpus_per_node) && rest.empty();
  if (!good)
    return invalid_usage(
        "'{}' names no simulated machine; write [NODESx]nvlinkGPUS or [NODESx]pcieGPUS with 1 to {} of each, such as "
        "nvlink8 or 2xnvlink2, or [NODESx]FILE with a topology file, such as ./node.xml",
        text, kMost);
  return topology;
}

std::string show(const SimTopology& topology) {
  if (!topology.file.empty())
    return topology.nodes == 1 ? topology.file : fmt::format("{}x{}", topology.nodes, topology.file);
  const std::string_view link = topology.link == SimLink::nvlink ? "nvlink" : "pcie";
  if (topology.nodes == 1) return fmt::format("{}{}", link, topology.gpus_per_node);
  return fmt::format("{}x{}{}", topology.nodes, link, topology.gpus_per_node);
}

}  // namespace tutti
