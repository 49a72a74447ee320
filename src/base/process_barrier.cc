#include "base/process_barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tutti {
namespace {

bool call(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

// The kernel keeps the registration with the address space: a fork copies the space and forgets it, so the process is
// part of what is remembered.
bool process_barrier_works() {
  static std::atomic<pid_t> registered{0};
  const pid_t self = ::getpid();
  // Relaxed: registering twice does no harm.
  if (registered.load(std::memory_order_relaxed) == self) return true;
  if (!call(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED)) return false;
  registered.store(self, std::memory_order_relaxed);
  return true;
}

void process_barrier() { call(MEMBARRIER_CMD_GLOBAL_EXPEDITED); }

}  // namespace tutti
