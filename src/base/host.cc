#include "base/host.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace tutti {
namespace {

unsigned long namespace_inode(const char* name) {
  struct stat st;
  return ::stat(fmt::format("/proc/self/ns/{}", name).c_str(), &st) == 0 ? st.st_ino : 0;
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

}  // namespace tutti
