#include "cuda/sim_topology.h"

#include <charconv>

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

}  // namespace

Result<SimTopology> parse_sim_topology(std::string_view text) {
  SimTopology topology;
  if (text.empty()) return topology;
  std::string_view rest = text;
  bool good = true;
  if (rest.front() >= '0' && rest.front() <= '9') good = read_number(rest, topology.nodes) && read_word(rest, "x");
  if (good && read_word(rest, "pcie")) topology.link = SimLink::pcie;
  else good = good && read_word(rest, "nvlink");
  good = good && read_number(rest, topology.gpus_per_node) && rest.empty();
  if (!good)
    return invalid_usage(
        "'{}' names no simulated machine; write [NODESx]nvlinkGPUS or [NODESx]pcieGPUS with 1 to {} of each, such as "
        "nvlink8 or 2xnvlink2",
        text, kMost);
  return topology;
}

std::string show(const SimTopology& topology) {
  const std::string_view link = topology.link == SimLink::nvlink ? "nvlink" : "pcie";
  if (topology.nodes == 1) return fmt::format("{}{}", link, topology.gpus_per_node);
  return fmt::format("{}x{}{}", topology.nodes, link, topology.gpus_per_node);
}

}  // namespace tutti
