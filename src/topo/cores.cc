#include "topo/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>

namespace tutti {
namespace {

// cgroup v2's "quota period"; "max" for no limit does not read as a number.
uint32_t quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return static_cast<uint32_t>(std::ceil(quota / period));
}

}  // namespace

CoreSet usable_cores() {
  CoreSet cores;
  cores.quota_cores = quota_cores();
  cpu_set_t set;
  const bool known = ::sched_getaffinity(0, sizeof set, &set) == 0;
  const size_t end = known ? CPU_SETSIZE : static_cast<size_t>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
  for (size_t c = 0; c < end; ++c) {
    if (known && !CPU_ISSET(c, &set)) continue;
    cores.words.resize(c / 64 + 1);
    cores.words[c / 64] |= uint64_t{1} << (c % 64);
  }
  return cores;
}

uint32_t count_cores(std::span<const CoreSet> processes) {
  std::vector<uint64_t> together;
  // Whether several processes share a quota is not to be seen, so the largest is taken to be everybody's.
  uint32_t quota = 0;
  bool limited = true;
  for (const CoreSet& process : processes) {
    if (together.size() < process.words.size()) together.resize(process.words.size());
    for (size_t w = 0; w < process.words.size(); ++w) together[w] |= process.words[w];
    quota = std::max(quota, process.quota_cores);
    limited &= process.quota_cores != 0;
  }
  uint32_t count = 0;
  for (const uint64_t word : together) count += static_cast<uint32_t>(std::popcount(word));
  if (limited && quota > 0) count = std::min(count, quota);
  return std::max(count, 1u);
}

}  // namespace tutti
