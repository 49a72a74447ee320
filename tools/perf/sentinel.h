// Sentinel: the main thread's wait for the rank threads, with one ear on signals.
//
// SIGINT, SIGTERM and SIGHUP are blocked in every thread and read here. The first one asks the ranks to stop between
// two calls; they abort their communicators, which tells the other ranks. A rank that is inside a call that never ends
// (its peer may be stopped) or waits for a long queue cannot answer, so after a while the process ends without it; the
// kernel frees the rest.
#pragma once

#include <atomic>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "perf/world.h"

namespace tutti::perf {

class Sentinel {
 public:
  // Call before any other thread starts, so that all inherit the mask.
  static Result<Sentinel> create();

  // Each rank thread calls one of these last. Thread-safe.
  void finished() { tell(0); }
  void failed() { tell(kFailure); }

  struct Grace {
    Nanoseconds after_failure, after_signal;
  };
  // Until `threads` have reported. False when the grace after a failure or signal was over with some still missing; the
  // caller must then leave by _exit.
  bool wait(int threads, Stop& stop, Grace grace);

 private:
  static constexpr uint64_t kFailure = 1ULL << 32;
  void tell(uint64_t extra);

  Fd signals_, reports_;
};

}  // namespace tutti::perf
