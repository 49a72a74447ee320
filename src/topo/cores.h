// Cores: which of the machine's cores a process may run on, and how many several processes may use together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tutti {

struct CoreSet {
  std::vector<uint64_t> words;  // bit c % 64 of word c / 64: core c
  uint32_t quota_cores = 0;     // what the cgroup's CPU quota amounts to, rounded up; 0: no limit
};

// Of this process: its affinity mask and cgroup v2's cpu.max. Reads /sys: a few microseconds.
CoreSet usable_cores();

// How many cores processes of one host may use together: each its own, those of several count once. Ranks that are
// bound to a core each have as many as there are of them. At least 1.
uint32_t count_cores(std::span<const CoreSet> processes);

}  // namespace tutti
