// Writing topologies: NCCL's topology XML, which NCCL and RCCL read with NCCL_TOPO_FILE, and our JSON, which keeps all
// that a Machine holds. Both are read back by topo/read.h. Pure.
#pragma once

#include <string>

#include "topo/machine.h"

namespace tutti {

// Version 1; version 2 where a GPU has an xGMI link. Without what the format has no room for: packages, MTU, addresses.
std::string to_nccl_xml(const Machine& machine);
std::string to_json(const Machine& machine);

}  // namespace tutti
