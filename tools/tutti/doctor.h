// What usually goes wrong on a machine, looked for one by one. Each finding says what was seen and, where something is
// to be done, what.
#pragma once

#include <string>
#include <vector>

#include "topo/machine.h"

namespace tutti {

enum class Severity : uint8_t { fine, note, warning, error };

struct Finding {
  Severity severity = Severity::fine;
  std::string what;
  std::string advice;  // empty where all is well
};

// From the files under `root` ("" for this machine; a folder with copies of /sys and /proc otherwise): links that are
// down or slow, limits of cores and memory, IOMMU and ACS, visibility of processes.
std::vector<Finding> examine_files(const std::string& root);
// From a machine's description: GPUs far from their cards, GPUs that nothing here can use.
std::vector<Finding> examine_machine(const Machine& machine);
// What only this process can tell: its environment and limits, whether processes can share memory, whether the
// interface that would be chosen takes connections.
std::vector<Finding> examine_process();

}  // namespace tutti
