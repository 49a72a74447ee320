// What each kind of XML document is turned into; see topo/read.h. Errors are kept in the file's status() or returned.
#pragma once

#include <vector>

#include "topo/read.h"
#include "topo/xml_file.h"

namespace tutti {

Result<Machine> read_nccl_system(XmlFile& file);
Result<std::vector<ChannelGraph>> read_nccl_graphs(XmlFile& file);
Result<Machine> read_hwloc(XmlFile& file);

}  // namespace tutti
