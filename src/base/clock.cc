#include "base/clock.h"

#include <ctime>

namespace tutti {

Nanoseconds SteadyClock::now() const {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<Nanoseconds>(ts.tv_sec) * kSecond + static_cast<Nanoseconds>(ts.tv_nsec);
}

const SteadyClock& SteadyClock::instance() {
  static const SteadyClock clock;
  return clock;
}

}  // namespace tutti
