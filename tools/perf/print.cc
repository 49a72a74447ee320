#include "perf/print.h"

#include <cerrno>
#include <cstdio>

namespace tutti::perf {

Status print_out(std::string_view text) {
  const bool taken = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (taken && std::fflush(stdout) == 0) return {};
  const int why = errno;
  std::clearerr(stdout);
  return system_error("write to standard output", why, "is the disk full, or ulimit -f reached?");
}

void print_error(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

}  // namespace tutti::perf
