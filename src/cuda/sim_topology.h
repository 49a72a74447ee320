// SimTopology: what TUTTI_SIM_TOPO describes: nodes of simulated GPUs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "topo/machine.h"
#include "topo/path_class.h"

namespace tutti {

// How the GPUs of one node are joined: directly, or through PCIe switches and the host.
enum class SimLink : uint8_t { nvlink, pcie };

struct SimTopology {
  int nodes = 1;
  int gpus_per_node = 8;
  SimLink link = SimLink::nvlink;
  std::string file;               // the node is what this file describes; empty: as `link` says
  Machine machine;                // of the file
  std::vector<PathClass> paths;   // between its GPUs, from row to column

  // Between two GPUs, by their numbers in the whole machine.
  PathClass path_between(int a, int b) const;
  int gpus() const { return nodes * gpus_per_node; }
  int node_of(int gpu) const { return gpu / gpus_per_node; }
  bool operator==(const SimTopology&) const = default;
};

// Built-in names: [NODESx]nvlinkGPUS or [NODESx]pcieGPUS: "nvlink8" (also what an empty text means), "2xnvlink2", "pcie4".
// Or [NODESx]FILE, a topology file (topo/read.h) by a path with a '/' or with the ending .xml or .json: "2x./dgx.xml".
// Errors: tuttiInvalidUsage with what is allowed, or what is wrong with the file. At most 64 nodes of 64 GPUs.
Result<SimTopology> parse_sim_topology(std::string_view text);
std::string show(const SimTopology& topology);

}  // namespace tutti
