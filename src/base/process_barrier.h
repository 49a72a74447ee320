// Process barrier: the heavy half of an asymmetric pair of fences, by membarrier(2) (Linux 4.16).
//
// Two sides each store one word and then load the other's, and at least one of them must see the other's store (Dekker).
// That takes a full barrier on both sides, unless one side makes everybody pass through one: then the other, frequent side
// needs only to keep its compiler from reordering (light_barrier), which saves it from waiting for its store to get the
// cache line, some 50 to 100 ns when the line was last read on another core.
#pragma once

#include <atomic>

namespace tutti {

// Whether barriers of other processes reach this one and its own reach others. Registers with the kernel at the first call;
// false where the kernel or a sandbox does not allow it. A forked child must ask again, which it does by itself.
bool process_barrier_works();

// When it returns, every running thread of every process for which process_barrier_works() was true has passed through a
// full memory barrier. About 1 us; interrupts the other cores that run such threads. Requires process_barrier_works().
void process_barrier();

inline void light_barrier() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace tutti
