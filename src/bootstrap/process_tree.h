// Looks up the tree of processes for the one that started this process's siblings.
#pragma once

#include <string>

namespace tutti {

// "PID STARTTIME" of the nearest ancestor that is MPICH's hydra_pmi_proxy (each host of a job has one), or empty. Works
// through shells and wrappers in between. Reads /proc; a few microseconds per generation.
std::string hydra_proxy_identity();

}  // namespace tutti
