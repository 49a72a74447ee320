// Host: which machine (and which of its namespaces) this process runs on, and how much of it it may use.
#pragma once

#include <string>

namespace tutti {

// gethostname().
std::string host_name();

// Equal for two processes exactly when they can share memory through /proc/PID/fd and reach each other's abstract Unix
// sockets: same boot, same network namespace, same PID namespace.
std::string host_identity();

// Cores that this process may run on: the affinity mask, bounded by the cgroup's CPU quota (rounded up); at least 1.
int usable_cores();

}  // namespace tutti
