// Time. The library reads the clock only through a Clock, so that the simulator can replace it.
#pragma once

#include <cstdint>

namespace tutti {

using Nanoseconds = uint64_t;  // since an arbitrary start, monotonic

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanoseconds now() const = 0;
};

// CLOCK_MONOTONIC. Thread-safe, about 20 ns.
class SteadyClock final : public Clock {
 public:
  Nanoseconds now() const override;
  static const SteadyClock& instance();
};

inline Nanoseconds steady_now() { return SteadyClock::instance().now(); }

constexpr Nanoseconds kMicrosecond = 1000;
constexpr Nanoseconds kMillisecond = 1000 * kMicrosecond;
constexpr Nanoseconds kSecond = 1000 * kMillisecond;

}  // namespace tutti
