#include "topo/read.h"

#include <sys/stat.h>

#include "topo/probe.h"
#include "topo/xml_readers.h"

namespace tutti {

std::string_view name_of(TopologyFormat format) {
  switch (format) {
    case TopologyFormat::nccl_xml:
      return "NCCL topology XML";
    case TopologyFormat::nccl_graph_xml:
      return "NCCL graph XML";
    case TopologyFormat::hwloc_xml:
      return "hwloc XML";
    case TopologyFormat::json:
      return "Tutti JSON";
    default:
      return "sysfs dump";
  }
}

Result<TopologyFile> parse_topology(const std::string& name, std::string text) {
  TopologyFile topology;
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') {
    topology.format = TopologyFormat::json;
    TUTTI_TRY_ASSIGN(topology.machine, parse_machine_json(name, text));
    return topology;
  }
  TUTTI_TRY_ASSIGN(const std::unique_ptr<XmlFile> file, XmlFile::parse(name, std::move(text)));
  const std::string_view root = file->root().name();
  if (root == "system") {
    topology.format = TopologyFormat::nccl_xml;
    TUTTI_TRY_ASSIGN(topology.machine, read_nccl_system(*file));
  } else if (root == "graphs") {
    topology.format = TopologyFormat::nccl_graph_xml;
    TUTTI_TRY_ASSIGN(topology.graphs, read_nccl_graphs(*file));
  } else if (root == "topology") {
    topology.format = TopologyFormat::hwloc_xml;
    TUTTI_TRY_ASSIGN(topology.machine, read_hwloc(*file));
  } else {
    file->refuse(file->root(), fmt::format("<{:.40}> is no topology; it may be <system> or <graphs> (NCCL), <topology> "
                                           "(hwloc), or JSON as tutti topo --format json writes it",
                                           root));
    return file->status();
  }
  return topology;
}

Result<TopologyFile> read_topology(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    TopologyFile topology;
    topology.format = TopologyFormat::sysfs;
    TUTTI_TRY_ASSIGN(topology.machine, probe_folder(path));
    return topology;
  }
  if (path.ends_with(".bz2") || path.ends_with(".gz"))
    return invalid_usage("{} is packed; unpack it (tar -xf) and give the folder", path);
  TUTTI_TRY_ASSIGN(std::string text, read_whole_file(path, XmlFile::kMostBytes));
  return parse_topology(path, std::move(text));
}

}  // namespace tutti
