#include "comm/surroundings.h"

#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "topo/order.h"
#include "topo/probe.h"
#include "topo/read.h"
#include "topo/write.h"

namespace tutti {
namespace {

Result<Machine> read_file(const std::string& path) {
  const std::string name = fmt::format("TUTTI_TOPO_FILE={}", path);
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode))
    return invalid_usage("{} is a folder; `tutti topo --file {} --format json` makes a file of it", name, path);
  Result<TopologyFile> file = read_topology(path);
  if (!file.ok()) return file.status().within("TUTTI_TOPO_FILE");
  if (file->format == TopologyFormat::nccl_graph_xml)
    return invalid_usage("{} holds the order of channels, and no machine; give a topology file", name);
  return std::move(file->machine);
}

// The ranks of one host and the rings through the GPUs that they have.
struct HostRings {
  std::vector<uint32_t> ranks, gpus;  // the latter each once, increasing
  NodeOrder order;                    // its numbers are places in `gpus`

  uint32_t position(size_t lane, int32_t gpu) const {
    const std::vector<uint32_t>& ring = order.lanes[lane % order.lanes.size()].gpus;
    const auto place = std::ranges::lower_bound(gpus, static_cast<uint32_t>(gpu)) - gpus.begin();
    return static_cast<uint32_t>(std::ranges::find(ring, static_cast<uint32_t>(place)) - ring.begin());
  }
};

std::string describe(const HostRings& host) {
  const LaneOrder& first = host.order.lanes[0];
  std::string ring;
  for (const uint32_t place : first.gpus) ring += fmt::format(" {}", host.gpus[place]);
  return fmt::format("{} {} by {}, {:.0f} GB/s in all; the first goes{}", host.order.lanes.size(),
                     host.order.lanes.size() == 1 ? "ring" : "rings", name_of(first.widest_class), host.order.gb_s,
                     ring);
}

// Empty where the order is found; else why it is not.
std::string find_rings(std::span<const NodeMember> members, const std::map<uint64_t, Machine>& machines,
                       HostRings& host) {
  const uint64_t structure = members[host.ranks[0]].structure;
  std::set<uint32_t> gpus;
  for (const uint32_t r : host.ranks) {
    const NodeMember& member = members[r];
    if (member.structure != structure)
      return fmt::format("ranks {} and {} are told of different machines; give both one TUTTI_TOPO_FILE, or none",
                         host.ranks[0], r);
    if (member.gpu == kNone) return fmt::format("rank {} has no GPU, or none that its machine has", r);
    gpus.insert(static_cast<uint32_t>(member.gpu));
  }
  const auto machine = machines.find(structure);
  if (machine == machines.end() || *gpus.rbegin() >= machine->second.gpus.size())
    return "nothing is known of the machine";
  if (gpus.size() < 2) return "there is one GPU";
  host.gpus.assign(gpus.begin(), gpus.end());
  host.order = find_order(Fabric(with_gpus(machine->second, host.gpus)));
  return {};
}

}  // namespace

std::string Surroundings::structure() const { return machine ? to_json(structure_of(*machine)) : std::string(); }

Result<Surroundings> look_around(const Config& config, const Device* device) {
  Surroundings around;
  if (!config.topo_file.empty()) {
    TUTTI_TRY_ASSIGN(around.machine, read_file(expand_log_path(config.topo_file)));
  } else if (device && device->machine()) {
    around.machine = *device->machine();
  } else if (device && device->kind() == "cuda") {
    TUTTI_TRY_ASSIGN(around.machine, probe_machine());
  }
  if (around.machine && device && static_cast<size_t>(device->index_in_node()) < around.machine->gpus.size())
    around.gpu = device->index_in_node();
  return around;
}

Result<std::vector<std::string>> far_cards(const Config& config, const Surroundings& around) {
  std::vector<std::string> names;
  PathClass farthest = PathClass::sys;
  parse_path_class(config.net_level, farthest);
  if (!around.machine || around.gpu == kNone || farthest == PathClass::sys) return names;
  const std::vector<Nic>& nics = around.machine->nics;
  const Fabric fabric(*around.machine);
  const auto gpu = static_cast<uint32_t>(around.gpu);
  bool some_left = false;
  for (uint32_t nic = 0; nic < fabric.nics(); ++nic) {
    if (fabric.to_nic(gpu, nic).path_class <= farthest) {
      some_left |= nics[nic].up;
      continue;
    }
    names.push_back(nics[nic].name);
    if (!nics[nic].interface.empty()) names.push_back(nics[nic].interface);
  }
  if (some_left || fabric.nearest_nics(gpu).empty()) return names;
  const uint32_t nearest = fabric.nearest_nics(gpu)[0];
  return invalid_usage("TUTTI_NET_LEVEL={} leaves GPU {} no network card: the nearest that is up, {}, is {} away",
                       config.net_level, gpu, nics[nearest].name, name_of(fabric.to_nic(gpu, nearest).path_class));
}

NodeOrders order_ranks(std::span<const NodeMember> members, const std::map<uint64_t, Machine>& machines) {
  std::vector<std::string_view> hosts;
  std::map<std::string_view, HostRings> by_host;
  for (uint32_t r = 0; r < members.size(); ++r) {
    hosts.push_back(members[r].host);
    by_host[members[r].host].ranks.push_back(r);
  }
  NodeOrders result;
  size_t lanes = 1;
  for (auto& [name, host] : by_host) {
    const std::string why_not = find_rings(members, machines, host);
    if (why_not.empty()) lanes = std::max(lanes, host.order.lanes.size());
    if (std::ranges::any_of(host.ranks, [&](uint32_t r) { return members[r].structure != 0; }))
      result.told.push_back({host.ranks[0], why_not.empty() ? describe(host) : "by number: " + why_not});
  }
  for (size_t lane = 0; lane < lanes; ++lane) {
    std::vector<uint32_t> positions(members.size(), 0);
    for (const auto& [name, host] : by_host)
      for (const uint32_t r : host.ranks)
        if (!host.order.lanes.empty()) positions[r] = host.position(lane, members[r].gpu);
    result.orders.emplace_back(hosts, positions);
  }
  return result;
}

}  // namespace tutti
