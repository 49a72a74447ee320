// In a file of its own: where the compiler sees both a new and its caller, it takes them for a mismatched pair.
#include "tests/tune/allocations.h"

#include <cstdlib>
#include <new>

namespace {
thread_local uint64_t count = 0;
}

namespace tutti {
uint64_t allocations() { return count; }
}  // namespace tutti

void* operator new(std::size_t bytes) {
  ++count;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
// std::stable_sort asks this one; left to the library, it would not match the delete below.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++count;
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
