// Counts what a stretch of code asks of the heap and of the kernel, per thread.
#pragma once

#include <cstdint>

namespace tutti::test {

struct Counted {
  uint64_t allocations = 0;
  // The first system call, -1: none. Those after it are not seen.
  int64_t system_call = -1;
};

// Whether this kernel and processor let a thread catch its own system calls (Linux 5.11, x86-64); call it first.
bool can_catch_system_calls();

void start_counting();
Counted stop_counting();

}  // namespace tutti::test
