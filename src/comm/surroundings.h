// Surroundings: what a rank with a GPU knows of its node, and the orders that follow from what all ranks know.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "cuda/device.h"
#include "plan/rank_order.h"
#include "topo/machine.h"

namespace tutti {

struct Surroundings {
  std::optional<Machine> machine;  // none: nothing that the order of ranks could follow
  int32_t gpu = kNone;             // the rank's own, a place in machine->gpus

  // Of the machine without one host's names, as JSON; empty where there is none.
  std::string structure() const;
};

// From TUTTI_TOPO_FILE; else what the device says; else, with a GPU of this host, a probe (10 to 100 ms). Blocks for
// files. Errors: tuttiInvalidUsage naming the file; a graph file and a folder describe no machine here.
Result<Surroundings> look_around(const Config& config, const Device* device);

// The cards that TUTTI_NET_LEVEL keeps the rank's GPU from, by name and interface. Pure. tuttiInvalidUsage naming the
// nearest where these are all that are up.
Result<std::vector<std::string>> far_cards(const Config& config, const Surroundings& around);

// Of one rank, as all ranks are told.
struct NodeMember {
  std::string_view host;
  uint64_t structure = 0;  // fnv1a(Surroundings::structure()); 0: not known
  int32_t gpu = kNone;
};

struct NodeOrders {
  std::vector<RankOrder> orders;  // at least one
  // Of each host of which a rank knows the machine, for the log.
  struct Told {
    uint32_t first_rank;
    std::string text;  // the rings, or why its ranks stand by number
  };
  std::vector<Told> told;
};
// Hosts all of whose ranks have a GPU in one known machine stand in its rings; the others by number. Pure; `machines`
// by structure.
NodeOrders order_ranks(std::span<const NodeMember> members, const std::map<uint64_t, Machine>& machines);

}  // namespace tutti
