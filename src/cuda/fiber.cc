#include "cuda/fiber.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>
#include <new>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_THREAD__)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}
#endif
#if defined(__SANITIZE_ADDRESS__)
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack_save, const void* bottom, size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack_save, const void** bottom_old, size_t* size_old);
}
#endif

#if defined(__x86_64__)
// Saves what the ABI lets a callee keep and changes stacks. Floating-point modes are the same for all fibers. A new stack
// holds the first function's argument in the place of r12 and the function itself in that of r13.
extern "C" void tutti_change_stack(void** save, void* load);
extern "C" void tutti_first_on_stack();
asm(R"(
.text
.globl tutti_change_stack
.hidden tutti_change_stack
.type tutti_change_stack,@function
tutti_change_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tutti_change_stack,.-tutti_change_stack
.globl tutti_first_on_stack
.hidden tutti_first_on_stack
.type tutti_first_on_stack,@function
tutti_first_on_stack:
  movq %r12, %rdi
  call *%r13
  ud2
.size tutti_first_on_stack,.-tutti_first_on_stack
)");
#endif

namespace tutti::dev {

#if defined(__x86_64__)
struct Context::Machine {
  void* stack_pointer = nullptr;
};
#else
struct Context::Machine {
  ucontext_t registers;
};
#endif

TUTTI_SCHEDULER void Context::arrive([[maybe_unused]] Context& self) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(self.fake_stack_, nullptr, nullptr);
#endif
}

TUTTI_SCHEDULER void Context::begin(Context* self) {
  arrive(*self);
  self->entry_(self->argument_);
  __builtin_trap();  // entry never returns
}

Context::Context() : machine_(new Machine) {
#if defined(__SANITIZE_THREAD__)
  race_context_ = __tsan_get_current_fiber();
#endif
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    void* bottom = nullptr;
    pthread_attr_getstack(&attributes, &bottom, &stack_bytes_);
    stack_bottom_ = bottom;
    pthread_attr_destroy(&attributes);
  }
}

Context::Context(size_t stack_bytes, void (*entry)(void*), void* argument)
    : machine_(new Machine), stack_bytes_(stack_bytes), entry_(entry), argument_(argument) {
  void* memory = ::mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  stack_ = static_cast<std::byte*>(memory);
  stack_bottom_ = stack_;
#if defined(__x86_64__)
  void** top = reinterpret_cast<void**>(stack_ + stack_bytes);
  *--top = nullptr;  // the first function finds the stack aligned to 16 bytes
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&tutti_first_on_stack);
  *--top = nullptr;                                 // rbp
  *--top = nullptr;                                 // rbx
  *--top = this;                                    // r12
  *--top = reinterpret_cast<void*>(&Context::begin);  // r13
  *--top = nullptr;                                 // r14
  *--top = nullptr;                                 // r15
  machine_->stack_pointer = top;
#else
  ::getcontext(&machine_->registers);
  machine_->registers.uc_stack = {.ss_sp = stack_, .ss_size = stack_bytes};
  machine_->registers.uc_link = nullptr;
  // makecontext() passes ints: the pointer travels in two.
  const auto address = reinterpret_cast<uintptr_t>(this);
  ::makecontext(&machine_->registers, reinterpret_cast<void (*)()>(+[](unsigned high, unsigned low) {
                  begin(reinterpret_cast<Context*>(static_cast<uintptr_t>(high) << 32 | low));
                }),
                2, static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
#endif
#if defined(__SANITIZE_THREAD__)
  race_context_ = __tsan_create_fiber(0);
#endif
}

Context::~Context() {
  if (!stack_) return;
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(race_context_);
#endif
  ::munmap(stack_, stack_bytes_);
}

TUTTI_SCHEDULER void Context::change(Context& from, Context& to, [[maybe_unused]] bool orders) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.fake_stack_, to.stack_bottom_, to.stack_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  constexpr unsigned kNoOrder = 1;
  __tsan_switch_to_fiber(to.race_context_, orders ? 0 : kNoOrder);
#endif
#if defined(__x86_64__)
  tutti_change_stack(&from.machine_->stack_pointer, to.machine_->stack_pointer);
#else
  ::swapcontext(&from.machine_->registers, &to.machine_->registers);
#endif
  arrive(from);
}

}  // namespace tutti::dev
