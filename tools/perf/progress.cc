#include "perf/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/clock.h"
#include "perf/print.h"

namespace tutti::perf {

Progress::Progress(size_t steps)
    : on_terminal_(::isatty(STDERR_FILENO) == 1), steps_(steps), started_ns_(steady_now()) {}

void Progress::step(std::string_view what) {
  const size_t done = done_++;
  if (!on_terminal_) return;
  const uint64_t now = steady_now();
  if (now - started_ns_ < 2 * kSecond || now - last_ns_ < 100 * kMillisecond) return;
  last_ns_ = now;
  const std::string share = steps_ > 0 ? fmt::format("{:3}%", 100 * done / steps_) : fmt::format("{} done", done);
  print_error(fmt::format("\r\033[K{} {} ({} s)", share, what, (now - started_ns_) / kSecond));
  shown_ = true;
}

void Progress::clear() {
  if (!shown_) return;
  print_error("\r\033[K");
  shown_ = false;
}

}  // namespace tutti::perf
