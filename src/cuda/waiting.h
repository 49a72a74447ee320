// How lanes wait and how they end: bounded by the launch's deadline and by the two words that ask all lanes to end.
#pragma once

#include "cuda/board.h"

namespace tutti::dev {

// Between two looks at whether to go on: some 50 us of polls of a flag that is far away.
constexpr uint32_t kPollsPerLook = 64;

// One thread's wait within a step.
struct Wait {
  const Launch* launch;
  const BoardStep* step;
  uint32_t slot;  // of the peer that is waited for
  bool sending;
  uint32_t polls = 0;
  uint64_t since_ns = 0;
};

// The first fault of a launch is told; all lanes end.
TUTTI_DEV void tell_fault(const Launch& a, FaultCode code, uint32_t slot, const SlotNote& theirs, uint64_t expected) {
  Control& control = *a.control;
  if (load_relaxed(&control.stopped) != 0) return;
  store_relaxed(&control.stopped, uint64_t{1});
  Fault& fault = control.fault;
  // Two lanes may come at once; either's story will do, and the host reads it when all have ended.
  store_relaxed(&fault.lane, static_cast<uint32_t>(bid()));
  store_relaxed(&fault.peer_slot, slot);
  store_relaxed(&fault.theirs.tag, theirs.tag);
  store_relaxed(&fault.theirs.sequence, theirs.sequence);
  store_relaxed(&fault.theirs.bytes, theirs.bytes);
  store_relaxed(&fault.expected_bytes, static_cast<uint32_t>(expected));
  store_release(&fault.code, static_cast<uint64_t>(code));
}

// After a poll in vain. False: the lane must end.
TUTTI_DEV bool keep_waiting(Wait& wait) {
  spin_hint(++wait.polls);
  if (wait.polls % kPollsPerLook != 0) return true;
  const Launch& a = *wait.launch;
  Control& control = *a.control;
  if (load_relaxed(&control.abort) != 0 || load_relaxed(&control.stopped) != 0) return false;
  const uint64_t now = now_ns();
  if (wait.since_ns == 0) {
    wait.since_ns = now;
    store_relaxed(&control.lanes[bid()].waiting,
                  wait.step->number << 32 | (wait.sending ? kWaitsToSend : 0) | wait.slot);
  }
  if (a.timeout_ns == 0 || now - wait.since_ns <= a.timeout_ns) return true;
  tell_fault(a, FaultCode::timeout, wait.slot, SlotNote{}, wait.step->bytes);
  return false;
}

// Until *counter >= value. False: the lane must end.
TUTTI_DEV bool wait_for(Wait wait, const uint64_t* counter, uint64_t value) {
  while (load_acquire(counter) < value)
    if (!keep_waiting(wait)) return false;
  return true;
}

}  // namespace tutti::dev
