#include "base/fork.h"

#include <pthread.h>

#include <atomic>

namespace tutti {
namespace {

// Relaxed: it only changes in a process that has a single thread.
std::atomic<uint64_t> generation{0};

}  // namespace

uint64_t fork_generation() {
  [[maybe_unused]] static const int registered = ::pthread_atfork(
      nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  return generation.load(std::memory_order_relaxed);
}

}  // namespace tutti
