// The one wait loop of the library.
//
// Spins a little, then yields, then blocks in poll(2), and looks at the clock, the abort flag and the peers now and then.
// Where ranks outnumber cores a spinning rank takes the core that its peer needs, so there it yields at once and blocks
// soon. So it does where others turn out to want the cores: who spins uses up a time slice, and then waits for its turn
// among them with the message at hand.
#pragma once

#include <poll.h>

#include <atomic>
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

// How often this thread's core was taken from it because another wanted it, so far. A system call.
uint64_t core_losses();

// Whether others want the cores that the ranks run on, as seen by those who wait: they lose theirs while they spin. What a
// hypervisor takes does not count, since giving up the core sooner would not help.
class Crowd {
 public:
  explicit Crowd(uint64_t (*losses)() = core_losses) : losses_(losses) {}
  // `gap` has passed between two looks of a thread that did little in between.
  void look(Nanoseconds gap, Nanoseconds now);
  bool present(Nanoseconds now) const { return now < until_.load(std::memory_order_relaxed); }

 private:
  uint64_t (*losses_)();
  // Relaxed, both: hints. Threads that wait at the same time may take each other's losses for new ones.
  std::atomic<uint64_t> known_losses_{0};
  std::atomic<Nanoseconds> until_{0};
};

struct WaitPolicy {
  uint32_t spin_polls = 0;         // polls without giving up the core
  Nanoseconds yield_for = 0;       // then polls with sched_yield in between
  // then blocks, for at most kCheckInterval at a time
  Crowd* crowd = nullptr;  // while it is present, blocks at the first look; null: nobody watches
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
