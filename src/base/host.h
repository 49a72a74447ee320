// Host: which machine (and which of its namespaces) this process runs on.
#pragma once

#include <string>

#include "base/status.h"

namespace tutti {

// gethostname().
std::string host_name();

// Equal for two processes exactly when they can share memory through /proc/PID/fd and reach each other's abstract Unix
// sockets: same boot, same network namespace, same PID namespace. Fails when the process may not open one more file.
Result<std::string> host_identity();

}  // namespace tutti
