// Buffer: a rank's memory for one side of a call, with guard zones before and behind it.
#pragma once

#include <sys/mman.h>
#include <tutti/tutti.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tutti::perf {

constexpr size_t kGuardBytes = 4096;

enum class Memory : uint8_t { anonymous, shareable };  // from mmap, or from tuttiMemAlloc

// Zero until touched. Movable, one owner.
class Buffer {
 public:
  Buffer() = default;
  // valid() is false when the system has not enough memory.
  explicit Buffer(size_t bytes, Memory kind = Memory::anonymous) : bytes_(bytes), kind_(kind) {
    void* memory = nullptr;
    if (kind == Memory::shareable) {
      if (tuttiMemAlloc(&memory, total()) != tuttiSuccess) memory = nullptr;
    } else {
      memory = ::mmap(nullptr, total(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) memory = nullptr;
    }
    memory_ = static_cast<std::byte*>(memory);
  }
  Buffer(Buffer&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_), kind_(other.kind_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(kind_, other.kind_);
    return *this;
  }
  ~Buffer() {
    if (memory_ == nullptr) return;
    if (kind_ == Memory::shareable) (void)tuttiMemFree(memory_);
    else ::munmap(memory_, total());
  }

  bool valid() const { return memory_ != nullptr; }
  std::byte* data() { return memory_ + kGuardBytes; }
  const std::byte* data() const { return memory_ + kGuardBytes; }
  size_t bytes() const { return bytes_; }

 private:
  size_t total() const { return bytes_ + 2 * kGuardBytes; }

  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
  Memory kind_ = Memory::anonymous;
};

}  // namespace tutti::perf
