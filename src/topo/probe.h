// Probe: what this machine, or a recorded one, is made of.
#pragma once

#include <string>

#include "topo/machine.h"

namespace tutti {

// This machine, through hwloc, with the speed, MTU, state and addresses of its network interfaces. Only cores that the
// container leaves are listed (cpuset of the cgroup); a narrower affinity is topo/cores.h's business. Interfaces of no
// device (bridges, tunnels) are left out, except where the machine has no other. 10 to 100 ms; errors only where hwloc
// fails.
Result<Machine> probe_machine();

// A folder with a dump of /sys and /proc, as hwloc-gather-topology makes it, or one that holds such a folder alone.
// Sets the environment variable HWLOC_FSROOT for a moment (see topo/read.h).
Result<Machine> probe_folder(const std::string& folder);

}  // namespace tutti
