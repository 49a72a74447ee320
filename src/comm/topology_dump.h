// TUTTI_TOPO_DUMP_FILE: what this host is made of, for the file that the user names.
#pragma once

#include "base/config.h"
#include "base/status.h"
#include "topo/machine.h"

namespace tutti {

// Writes `known`, or where that is null what a probe of this machine finds (10 to 100 ms), as NCCL's XML where the name
// ends in .xml, else as JSON; does nothing where no file is named. To be called by one rank of each host. Blocks for
// the file alone. Errors: tuttiSystemError with the file's name.
Status dump_topology(const Config& config, const Machine* known);

}  // namespace tutti
