// Reading topologies: NCCL's topology XML (version 1, and RCCL's version 2 with xgmi), NCCL's graph XML, hwloc's XML
// (versions 2 and 3), our JSON, and folders with a dump of /sys and /proc as hwloc-gather-topology makes them.
//
// The format is seen from the contents. Files may come from strangers: sizes, depths and counts are limited, and
// nothing outside the file is read. Errors are tuttiInvalidUsage, "FILE:LINE: what is wrong, what is allowed". A folder
// is read through hwloc, which takes 10 ms or more; the rest takes about 1 ms per 100 KB.
#pragma once

#include <string>
#include <vector>

#include "topo/machine.h"

namespace tutti {

// One of NCCL's graphs: in which order its channels go through the GPUs of a node.
struct ChannelGraph {
  enum class Stop : uint8_t { gpu, net };
  struct Step {
    Stop stop = Stop::gpu;
    uint32_t dev = 0;
    bool operator==(const Step&) const = default;
  };
  uint32_t id = 0;       // 0 ring, 1 tree, 2 collnet chain, 3 nvls, 4 collnet direct
  uint32_t pattern = 0;  // 1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 nvls, 6 collnet direct
  double gb_s_intra = 0, gb_s_inter = 0;
  std::string type_intra, type_inter;  // path classes
  std::vector<std::vector<Step>> channels;
  bool operator==(const ChannelGraph&) const = default;
};

enum class TopologyFormat : uint8_t { nccl_xml, nccl_graph_xml, hwloc_xml, json, sysfs };
std::string_view name_of(TopologyFormat format);

struct TopologyFile {
  TopologyFormat format = TopologyFormat::nccl_xml;
  Machine machine;                   // of a graph file: empty
  std::vector<ChannelGraph> graphs;  // of a graph file
};

// `name` is what errors call the file.
Result<TopologyFile> parse_topology(const std::string& name, std::string text);
// A file or a folder. A folder is given to hwloc by the environment variable HWLOC_FSROOT, which is put back
// afterwards: no other thread may use the environment meanwhile. The library itself never reads folders.
Result<TopologyFile> read_topology(const std::string& path);

// ---- single formats, as parse_topology() tells them apart
Result<Machine> parse_machine_json(const std::string& name, const std::string& text);

}  // namespace tutti
