#include "base/host.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace tutti {
namespace {

unsigned long namespace_inode(const char* name) {
  struct stat st;
  return ::stat(fmt::format("/proc/self/ns/{}", name).c_str(), &st) == 0 ? st.st_ino : 0;
}

// cgroup v2's "quota period" in cores; a huge number where there is no limit.
double quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;  // "max" for no limit does not read as a number
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return 1e9;
  return quota / period;
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return fmt::format("{}/{}/{}", boot.empty() ? host_name() : boot, namespace_inode("net"), namespace_inode("pid"));
}

int usable_cores() {
  cpu_set_t set;
  int cores =
      ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cores = static_cast<int>(std::min<double>(cores, std::ceil(quota_cores())));
  return std::max(cores, 1);
}

}  // namespace tutti
