#include "counted.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#endif

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace tutti::test {
namespace {

// What the kernel's selector byte may be (linux/prctl.h).
constexpr char kAllow = 0, kBlock = 1;

thread_local bool counting = false;
thread_local Counted counted;
thread_local char selector = kAllow;

void count_allocation() {
  if (counting) ++counted.allocations;
}

#if defined(__x86_64__)
// Performs the call that was caught, and lets through what follows: the first one is all that the test wants to know.
void on_system_call(int, siginfo_t* info, void* context) {
  selector = kAllow;
  counted.system_call = info->si_syscall;
  greg_t* r = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const long result = ::syscall(info->si_syscall, r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]);
  r[REG_RAX] = result == -1 ? -errno : result;
}
#endif

}  // namespace

bool can_catch_system_calls() {
#if defined(__x86_64__)
  struct sigaction action {};
  action.sa_sigaction = on_system_call;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSYS, &action, nullptr);
  return ::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector) == 0;
#else
  return false;
#endif
}

void start_counting() {
  counted = {};
  counting = true;
  selector = kBlock;
}

Counted stop_counting() {
  selector = kAllow;
  counting = false;
  return counted;
}

}  // namespace tutti::test

// glibc's own entries stay behind these.
extern "C" {
void* malloc(size_t bytes) {
  tutti::test::count_allocation();
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  tutti::test::count_allocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  tutti::test::count_allocation();
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  tutti::test::count_allocation();
  return __libc_memalign(alignment, bytes);
}
}
