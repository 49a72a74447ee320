// Fiber: a stack of its own to run a function on, entered and left by hand. What the threads of a block are when kernels
// run on the CPU.
//
// A fiber stays on the OS thread that made it. Switching takes some 10 ns on x86-64 (a few registers), more elsewhere
// (swapcontext). ThreadSanitizer and AddressSanitizer are told of every switch: to the former a fiber is a thread, and
// two fibers of one OS thread can race.
#pragma once

#include <cstddef>
#include <memory>

#if defined(__SANITIZE_THREAD__)
#define TUTTI_SCHEDULER __attribute__((no_sanitize_thread, noinline))
#else
#define TUTTI_SCHEDULER
#endif

namespace tutti::dev {

// A point of execution that can be switched away from: a fiber, or the OS thread's own stack.
class Context {
 public:
  // The calling OS thread.
  Context();
  // A stack of `stack_bytes`, on which entry(argument) runs when first switched to. entry never returns. Throws
  // std::bad_alloc, as containers do.
  Context(size_t stack_bytes, void (*entry)(void*), void* argument);
  ~Context();
  Context(const Context&) = delete;

  // Leaves `from`, which is running, for `to`. `orders`: what was done before happens before what comes after, for
  // ThreadSanitizer; a kernel's threads must have no order but the one that their barriers and flags make.
  static void change(Context& from, Context& to, bool orders);

 private:
  struct Machine;  // saved registers
  std::unique_ptr<Machine> machine_;
  std::byte* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  const void* stack_bottom_ = nullptr;  // for AddressSanitizer; the OS thread's: learnt at the first switch back
  void* fake_stack_ = nullptr;
  void* race_context_ = nullptr;  // ThreadSanitizer's
  static void begin(Context* self);  // first on a new stack
  static void arrive(Context& self);

  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
};

}  // namespace tutti::dev
