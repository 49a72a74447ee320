#include "engine/wait.h"

#include <sched.h>
#include <sys/resource.h>

namespace tutti {
namespace {

constexpr uint32_t kPollsPerClockLook = 64;  // the clock costs about as much as a poll
// About a time slice: whoever takes so long wants the core for itself. A kernel thread or an interrupt takes less, and
// spinning makes up for that.
constexpr Nanoseconds kGapOfLoss = 2 * kMillisecond;
// So often a rank tries again whether it can spin. At worst it then loses a slice of some ms each time.
constexpr Nanoseconds kCrowdStays = 20 * kMillisecond;

// Blocks until a wake-up or kCheckInterval. What happened before the wake-ups were armed is seen by the poll in between;
// what happens after it sends one.
Result<Progress> block_once(Waitable& waitable, std::vector<pollfd>& descriptors) {
  descriptors.clear();
  const bool armed = waitable.prepare_wait(descriptors);
  Result<Progress> progress = waitable.poll();
  if (armed && progress.ok() && *progress == Progress::blocked) {
    // Errors (EINTR) only end the wait early.
    ::poll(descriptors.data(), descriptors.size(), static_cast<int>(kCheckInterval / kMillisecond));
  }
  waitable.finish_wait();
  return progress;
}

}  // namespace

uint64_t core_losses() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return static_cast<uint64_t>(usage.ru_nivcsw);
}

void Crowd::look(Nanoseconds gap, Nanoseconds now) {
  if (gap < kGapOfLoss) return;
  const uint64_t losses = losses_();
  if (known_losses_.exchange(losses, std::memory_order_relaxed) != losses)
    until_.store(now + kCrowdStays, std::memory_order_relaxed);
}

WaitPolicy wait_policy(int ranks, int cores) {
  // A message between two cores takes 50 to 500 ns, a fold of a tile some 10 us: 4000 polls (about 100 us) cover both. A
  // sched_yield is 0.4 us alone and a time slice when others are runnable, so yielding is only a bridge to blocking.
  if (ranks <= cores) return {4000, 2 * kMillisecond};
  return {0, 200 * kMicrosecond};
}

Status wait_until_finished(Waitable& waitable, const WaitPolicy& policy, const Clock& clock) {
  std::vector<pollfd> descriptors;
  uint32_t idle_polls = 0;
  Nanoseconds last_move = 0, last_check = 0;  // 0: not looked at the clock since the last move
  Nanoseconds last_look = 0;                  // 0: not since, or blocked since
  bool block = false;
  for (;;) {
    Result<Progress> progress = block ? block_once(waitable, descriptors) : waitable.poll();
    TUTTI_TRY(progress);
    if (*progress == Progress::finished) return {};
    if (*progress == Progress::moved) {
      idle_polls = 0;
      last_move = last_look = 0;
      block = false;
      continue;
    }
    if (++idle_polls < policy.spin_polls && idle_polls % kPollsPerClockLook != 0) {
      pause_core();
      continue;
    }
    const Nanoseconds now = clock.now();
    if (last_move == 0) last_move = last_check = now;
    if (now - last_check >= kCheckInterval / 2) {
      TUTTI_TRY(waitable.check(now - last_move));
      last_check = now;
    }
    if (policy.crowd && last_look != 0) policy.crowd->look(now - last_look, now);
    const bool crowded = policy.crowd && policy.crowd->present(now);
    last_look = now;
    if (!crowded && idle_polls < policy.spin_polls) continue;
    block = crowded || now - last_move >= policy.yield_for;
    if (block)
      last_look = 0;
    else
      ::sched_yield();
  }
}

}  // namespace tutti
