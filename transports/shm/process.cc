#include "transports/shm/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/fd.h"

namespace tutti::shm {
namespace {

struct Stat {
  char state = '?';
  long threads = 0;
  unsigned long long start_time = 0;
};

// proc(5): "pid (comm) state ppid ... num_threads(20) itrealvalue starttime(22)". comm may hold anything, even ')', so
// the fields are counted from the last one. errno tells why there is nothing.
std::optional<Stat> read_stat(int32_t pid) {
  Fd file(::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  char text[1024];
  const ssize_t n = ::read(file.get(), text, sizeof text - 1);
  if (n <= 0) return std::nullopt;
  text[n] = '\0';
  Stat stat;
  const char* after_name = std::strrchr(text, ')');
  const int fields = after_name ? std::sscanf(after_name + 1,
                                              " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld "
                                              "%*d %llu",
                                              &stat.state, &stat.threads, &stat.start_time)
                                : 0;
  errno = EPROTO;
  return fields == 3 ? std::optional<Stat>(stat) : std::nullopt;
}

}  // namespace

uint64_t own_start_time() {
  const std::optional<Stat> stat = read_stat(::getpid());
  return stat ? stat->start_time : 0;
}

bool process_lives(int32_t pid, uint64_t start_time) {
  const std::optional<Stat> stat = read_stat(pid);
  if (!stat) {
    if (errno == ENOENT || errno == ESRCH) return false;
    // Out of descriptors, say: the weaker question needs none.
    return ::kill(pid, 0) == 0 || errno != ESRCH;
  }
  if (stat->start_time != start_time) return false;
  // A zombie has nothing left but its exit status, unless only its first thread has ended.
  const bool ended = stat->state == 'Z' || stat->state == 'X';
  return !ended || stat->threads > 1;
}

}  // namespace tutti::shm
