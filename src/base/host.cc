#include "base/host.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

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

Result<std::string> host_identity() {
  constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";
  const Fd file(::open(kBootId, O_RDONLY | O_CLOEXEC));
  // A rank that took another identity for want of a descriptor would be on a host of its own.
  if (!file && (errno == EMFILE || errno == ENFILE))
    return system_error(fmt::format("open({})", kBootId), errno, "raise the limit of open files (ulimit -n)");
  char text[37];  // a UUID
  const ssize_t got = file ? ::read(file.get(), text, sizeof text - 1) : -1;
  const std::string boot = got > 0 ? std::string(text, static_cast<size_t>(got)) : host_name();
  return fmt::format("{}/{}/{}", boot, namespace_inode("net"), namespace_inode("pid"));
}

}  // namespace tutti
