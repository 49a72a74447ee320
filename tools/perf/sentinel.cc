#include "perf/sentinel.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <csignal>

namespace tutti::perf {
Result<Sentinel> Sentinel::create() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  Sentinel sentinel;
  sentinel.signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!sentinel.signals_) return system_error("signalfd", errno);
  sentinel.reports_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!sentinel.reports_) return system_error("eventfd", errno);
  return sentinel;
}

// The low half of the counter counts threads, the high half failures.
void Sentinel::tell(uint64_t extra) {
  const uint64_t report = 1 + extra;
  while (::write(reports_.get(), &report, sizeof(report)) < 0 && errno == EINTR) continue;
}

bool Sentinel::wait(int threads, Stop& stop, Grace grace) {
  int reported = 0;
  Nanoseconds deadline = 0;  // 0: none
  while (reported < threads) {
    pollfd sources[] = {{signals_.get(), POLLIN, 0}, {reports_.get(), POLLIN, 0}};
    int timeout_ms = -1;
    if (deadline != 0) {
      const Nanoseconds now = steady_now();
      if (now >= deadline) return false;
      timeout_ms = static_cast<int>((deadline - now) / kMillisecond) + 1;
    }
    if (::poll(sources, 2, timeout_ms) < 0 && errno != EINTR) return false;
    const auto not_later_than = [&](Nanoseconds from_now) {
      const Nanoseconds then = steady_now() + from_now;
      deadline = deadline == 0 ? then : std::min(deadline, then);
    };
    signalfd_siginfo news;
    while (::read(signals_.get(), &news, sizeof(news)) == sizeof(news)) {
      if (stop.signal.load() != 0) return false;  // asked twice: at once
      stop.signal.store(static_cast<int>(news.ssi_signo));
      not_later_than(grace.after_signal);
    }
    uint64_t reports = 0;
    if (::read(reports_.get(), &reports, sizeof(reports)) == sizeof(reports)) {
      reported += static_cast<int>(reports % kFailure);
      if (reports >= kFailure) not_later_than(grace.after_failure);
    }
  }
  return true;
}

}  // namespace tutti::perf
