// The one wait loop of the library.
//
// Spins a little, then yields, then blocks in poll(2), and looks at the clock, the abort flag and the peers now and then.
// Where ranks outnumber cores a spinning rank takes the core that its peer needs, so there it yields at once and blocks
// soon.
#pragma once

#include <poll.h>

#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "plan/machine.h"

namespace tutti {

// Something that is driven until it is finished.
class Waitable {
 public:
  virtual ~Waitable() = default;
  // Does what can be done now. An error ends the wait.
  virtual Result<Progress> poll() = 0;
  // Asks for wake-ups: adds descriptors; false when something has happened meanwhile. finish_wait() undoes it.
  virtual bool prepare_wait(std::vector<pollfd>& descriptors) = 0;
  virtual void finish_wait() = 0;
  // Called while nothing moves, at least every kCheckInterval: abort flag, deadline, news from the hub, lost peers.
  virtual Status check(Nanoseconds since_last_move) = 0;
};

struct WaitPolicy {
  uint32_t spin_polls = 0;         // polls without giving up the core
  Nanoseconds yield_for = 0;       // then polls with sched_yield in between
  // then blocks, for at most kCheckInterval at a time
};
constexpr Nanoseconds kCheckInterval = 50 * kMillisecond;

// `ranks` share `cores`.
WaitPolicy wait_policy(int ranks, int cores);

// Between two polls: leaves the core's other half and its power to others for some 20 ns.
inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns when poll() says finished, or the first error of poll() or check().
Status wait_until_finished(Waitable& waitable, const WaitPolicy& policy, const Clock& clock);

}  // namespace tutti
