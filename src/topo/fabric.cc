#include "topo/fabric.h"

#include <algorithm>
#include <map>

#include "topo/graph.h"
#include "topo/speeds.h"

namespace tutti {
namespace {

constexpr std::string_view kNames[] = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET"};
constexpr double kIntelLoad = 1.2;

}  // namespace

std::string_view name_of(PathClass path_class) { return kNames[static_cast<size_t>(path_class)]; }

bool parse_path_class(std::string_view name, PathClass& path_class) {
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const auto* found = std::ranges::find(kNames, upper);
  if (found == std::end(kNames)) return false;
  path_class = static_cast<PathClass>(found - std::begin(kNames));
  return true;
}

Fabric::Fabric(const Machine& machine)
    : gpus_(static_cast<uint32_t>(machine.gpus.size())), nics_(static_cast<uint32_t>(machine.nics.size())) {
  const Graph graph(machine);
  link_gb_s_ = graph.link_gb_s();
  gpu_paths_.resize(size_t{gpus_} * gpus_);
  nic_paths_.resize(size_t{gpus_} * nics_);
  routes_.resize(gpu_paths_.size());
  loads_.assign(gpu_paths_.size(), 1);
  for (uint32_t g = 0; g < gpus_; ++g) {
    std::vector<Graph::Route> routes = graph.routes_from(graph.gpu(g));
    for (uint32_t other = 0; other < gpus_; ++other) {
      Graph::Route& route = routes[graph.gpu(other)];
      const size_t pair = g * size_t{gpus_} + other;
      if (route.by_intel) {
        loads_[pair] = kIntelLoad;
        route.path.gb_s /= kIntelLoad;
      }
      gpu_paths_[pair] = route.path;
      routes_[pair] = std::move(route.links);
    }
    for (uint32_t n = 0; n < nics_; ++n) nic_paths_[g * size_t{nics_} + n] = routes[graph.nic(n)].path;
  }
  choose_nics(machine);
  relay();
}

// By way of the GPU that is nearest to the card, where NVLink leads to it.
void Fabric::relay() {
  std::vector<Path> straight = nic_paths_;
  for (uint32_t g = 0; g < gpus_; ++g)
    for (uint32_t n = 0; n < nics_; ++n) {
      Path& path = nic_paths_[g * size_t{nics_} + n];
      if (straight[g * size_t{nics_} + n].path_class < PathClass::phb) continue;
      for (uint32_t other = 0; other < gpus_; ++other) {
        const Path& first = between_gpus(g, other);
        const Path& second = straight[other * size_t{nics_} + n];
        if (other == g || first.path_class != PathClass::nvl || second.path_class > PathClass::pxb) continue;
        const double gb_s = std::min(first.gb_s, second.gb_s);
        if (path.path_class == PathClass::pxn && path.gb_s >= gb_s) continue;
        path = {PathClass::pxn, gb_s, first.hops + second.hops};
      }
    }
}

void Fabric::choose_nics(const Machine& machine) {
  nearest_.resize(gpus_);
  nic_of_.assign(gpus_, kNone);
  std::map<std::vector<uint32_t>, uint32_t> turns;
  for (uint32_t g = 0; g < gpus_; ++g) {
    const Path* best = nullptr;
    for (uint32_t n = 0; n < nics_; ++n) {
      const Path& path = nic_paths_[g * size_t{nics_} + n];
      if (!machine.nics[n].up) continue;
      const auto better = [](const Path& a, const Path& b) {
        return a.path_class != b.path_class ? a.path_class < b.path_class : a.gb_s > b.gb_s;
      };
      if (!best || better(path, *best)) nearest_[g].clear();
      if (nearest_[g].empty()) best = &path;
      if (!better(*best, path)) nearest_[g].push_back(n);
    }
    if (nearest_[g].empty()) continue;
    const uint32_t turn = turns[nearest_[g]]++;
    nic_of_[g] = static_cast<int32_t>(nearest_[g][turn % nearest_[g].size()]);
  }
}

}  // namespace tutti
