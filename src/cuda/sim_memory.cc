#include "cuda/sim_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "base/bytes.h"
#include "base/fd.h"

namespace tutti::sim_memory {
namespace {

constexpr size_t kPageBytes = 4096;
using Token = std::array<std::byte, 16>;

// The file holds the bytes, then a page with the token by which importers know that they have found the right file.
struct Allocation {
  Fd memfd;
  size_t bytes;         // asked for
  size_t mapped_bytes;  // whole pages
  int device;
  Token token;
};
struct Table {
  std::mutex mutex;
  std::atomic<size_t> count{0};  // of allocations. Relaxed: who got a pointer from another thread got it in order
  std::map<std::byte*, Allocation> allocations;  // by the caller's address
};
// Never destroyed: used until the process ends.
Table& table() {
  static Table* const instance = new Table;
  return *instance;
}

std::byte* kernel_view_of(std::byte* begin, const Allocation& a) { return begin + a.mapped_bytes; }

}  // namespace

Result<std::byte*> allocate(size_t bytes, int device) {
  const size_t mapped = (std::max<size_t>(bytes, 1) + kPageBytes - 1) / kPageBytes * kPageBytes;
  Fd memfd(::memfd_create("tutti-simulated-gpu", MFD_CLOEXEC));
  if (!memfd) return system_error("memfd_create", errno, "is the limit of open files (ulimit -n) reached?");
  if (::ftruncate(memfd.get(), static_cast<off_t>(mapped + kPageBytes)) != 0)
    return system_error(fmt::format("ftruncate(memfd, {} bytes of simulated device memory)", bytes), errno);
  Token token{};
  if (::getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size()))
    return system_error("getrandom", errno);
  if (::pwrite(memfd.get(), token.data(), token.size(), static_cast<off_t>(mapped)) !=
      static_cast<ssize_t>(token.size()))
    return system_error("pwrite(memfd)", errno);
  // Reserved whole, unreadable; then the upper half becomes the kernels' view.
  void* reserved = ::mmap(nullptr, 2 * mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED)
    return system_error(fmt::format("mmap of {} bytes of simulated device memory", bytes), errno);
  std::byte* const begin = static_cast<std::byte*>(reserved);
  if (::mmap(begin + mapped, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memfd.get(), 0) == MAP_FAILED) {
    const int error = errno;
    ::munmap(reserved, 2 * mapped);
    return system_error(fmt::format("mmap of {} bytes of simulated device memory", bytes), error);
  }
  const std::lock_guard lock(table().mutex);
  table().count.fetch_add(1, std::memory_order_relaxed);
  table().allocations.emplace(begin, Allocation{std::move(memfd), bytes, mapped, device, token});
  return begin;
}

bool free(std::byte* memory) {
  const std::lock_guard lock(table().mutex);
  const auto entry = table().allocations.find(memory);
  if (entry == table().allocations.end()) return false;
  ::munmap(memory, 2 * entry->second.mapped_bytes);
  table().allocations.erase(entry);
  table().count.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

std::optional<Found> find(const void* pointer) {
  std::byte* const address = static_cast<std::byte*>(const_cast<void*>(pointer));
  const std::lock_guard lock(table().mutex);
  auto entry = table().allocations.upper_bound(address);
  if (entry == table().allocations.begin()) return std::nullopt;
  --entry;
  auto& [begin, allocation] = *entry;
  if (address >= begin + 2 * allocation.mapped_bytes) return std::nullopt;
  return Found{begin, kernel_view_of(begin, allocation), allocation.bytes, allocation.device};
}

bool exists() { return table().count.load(std::memory_order_relaxed) != 0; }

void claim(const void* pointer, int device) {
  const auto found = find(pointer);
  if (!found || found->device != kNoDeviceYet) return;
  const std::lock_guard lock(table().mutex);
  const auto entry = table().allocations.find(found->begin);
  if (entry != table().allocations.end() && entry->second.device == kNoDeviceYet) entry->second.device = device;
}

Status copy(void* to, const void* from, size_t bytes) {
  const auto view = [](const void* p) {
    auto* address = static_cast<std::byte*>(const_cast<void*>(p));
    const auto found = find(p);
    return !found || address >= found->kernel_view ? address : found->kernel_view + (address - found->begin);
  };
  if (bytes != 0) std::memcpy(view(to), view(from), bytes);
  return {};
}

Result<std::vector<std::byte>> describe_allocation(const std::byte* memory) {
  const std::lock_guard lock(table().mutex);
  const auto entry = table().allocations.find(const_cast<std::byte*>(memory));
  if (entry == table().allocations.end()) return fail(tuttiInternalError, "what is exported was not allocated");
  ByteWriter writer;
  writer.put<int32_t>(::getpid());
  writer.put<int32_t>(entry->second.memfd.get());
  writer.put<uint64_t>(entry->second.mapped_bytes);
  writer.put<uint64_t>(reinterpret_cast<uint64_t>(memory));
  writer.put_bytes(entry->second.token);
  return writer.take();
}

Result<Imported> import_allocation(std::span<const std::byte> description) {
  ByteReader reader(description);
  const auto pid = reader.get<int32_t>();
  const auto number = reader.get<int32_t>();
  const auto bytes = reader.get<uint64_t>();
  const auto address = reader.get<uint64_t>();
  const std::vector<std::byte> token = reader.get_bytes();
  if (!reader.complete() || token.size() != sizeof(Token)) return fail(tuttiInternalError, "a malformed description of device memory");
  if (pid == ::getpid()) {
    const auto found = find(reinterpret_cast<void*>(address));
    if (!found) return fail(tuttiInternalError, "device memory that is not allocated any more");
    return Imported{found->kernel_view, 0};
  }
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, number);
  const Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file)
    return system_error(fmt::format("open({})", path), errno, "its process has ended, or forbids others to look into it");
  // The number may have been closed and used again in the meantime.
  Token present{};
  if (::pread(file.get(), present.data(), present.size(), static_cast<off_t>(bytes)) !=
          static_cast<ssize_t>(present.size()) ||
      !std::equal(present.begin(), present.end(), token.begin()))
    return fail(tuttiSystemError, "{} is no longer the rank's device memory", path);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return system_error("mmap(another rank's device memory)", errno);
  return Imported{static_cast<std::byte*>(memory), bytes};
}

void release(const Imported& imported) {
  if (imported.mapped_bytes != 0) ::munmap(imported.kernel_view, imported.mapped_bytes);
}

}  // namespace tutti::sim_memory
