#include "base/shareable.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <new>
#include <shared_mutex>

namespace tutti {

struct ShareableRegion::Header {
  uint64_t id;  // written once, before the name is given away
  // 1: freed. Release by the owner, relaxed by others: they only unmap what nobody will ask for any more.
  std::atomic<uint32_t> freed;
};

namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kMostBytes = size_t{1} << 56;

size_t data_span(size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }
size_t file_bytes(size_t bytes) { return data_span(bytes) + kPageBytes; }

// Of this process. Never destroyed: the application may free memory from static destructors.
struct Regions {
  std::shared_mutex mutex;
  std::map<const std::byte*, std::shared_ptr<ShareableRegion>> by_address;
  std::map<void*, size_t> ordinary;  // allocations that no peer can map
  std::atomic<uint64_t> version{0};
};
Regions& regions() {
  static Regions* const all = new Regions;
  return *all;
}

Status check_file_size_limit(size_t bytes) {
  // ftruncate() past RLIMIT_FSIZE is answered with SIGXFSZ, so ask first.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes)
    return fail(tuttiSystemError, "a shared region needs a file of {} bytes, but the limit (ulimit -f) is {}", bytes,
                limit.rlim_cur);
  return {};
}

Result<std::byte*> map_file(int fd, size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return system_error(fmt::format("mmap of {} bytes", bytes), errno);
  // Where the administrator allows it (shmem_enabled=advise); a refusal changes nothing.
  (void)::madvise(data, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(data);
}

}  // namespace

ShareableRegion::ShareableRegion(Fd memfd, RegionName name, std::byte* data)
    : memfd_(std::move(memfd)), name_(name), data_(data) {}

ShareableRegion::~ShareableRegion() { ::munmap(data_, file_bytes(name_.bytes)); }

ShareableRegion::Header& ShareableRegion::header() const {
  return *reinterpret_cast<Header*>(data_ + data_span(name_.bytes));
}

bool ShareableRegion::alive() const { return header().freed.load(std::memory_order_acquire) == 0; }
void ShareableRegion::end_life() {
  if (made_in_ == fork_generation()) header().freed.store(1, std::memory_order_release);
}

Result<std::shared_ptr<ShareableRegion>> ShareableRegion::create(size_t bytes) {
  TUTTI_TRY(check_file_size_limit(file_bytes(bytes)));
  RegionName name{.bytes = bytes};
  if (::getrandom(&name.id, sizeof name.id, 0) != sizeof name.id) return system_error("getrandom", errno);
  Fd memfd(::memfd_create("tutti-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memfd) return system_error("memfd_create", errno);
  if (::ftruncate(memfd.get(), static_cast<off_t>(file_bytes(bytes))) != 0)
    return system_error("ftruncate(memfd)", errno);
  // A peer that could shrink the file could kill this process by SIGBUS.
  if (::fcntl(memfd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("fcntl(memfd, F_ADD_SEALS)", errno);
  TUTTI_TRY_ASSIGN(std::byte* const data, map_file(memfd.get(), file_bytes(bytes)));
  name.descriptor = memfd.get();
  std::shared_ptr<ShareableRegion> region(new ShareableRegion(std::move(memfd), name, data));
  region->header().id = name.id;
  return region;
}

Result<std::shared_ptr<ShareableRegion>> ShareableRegion::map(pid_t owner, const RegionName& name) {
  const std::string path = fmt::format("/proc/{}/fd/{}", owner, name.descriptor);
  const Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) return system_error(fmt::format("open({})", path), errno);
  struct stat info {};
  // The number may have been closed and used again for something else; the size and the header tell.
  if (::fstat(file.get(), &info) != 0 || static_cast<uint64_t>(info.st_size) != file_bytes(name.bytes))
    return fail(tuttiSystemError, "{} is no longer the region of {} bytes", path, name.bytes);
  TUTTI_TRY_ASSIGN(std::byte* const data, map_file(file.get(), file_bytes(name.bytes)));
  std::shared_ptr<ShareableRegion> region(new ShareableRegion(Fd(), name, data));
  if (region->header().id != name.id || !region->alive())
    return fail(tuttiSystemError, "{} is no longer the region it was", path);
  return region;
}

Result<std::byte*> allocate_shareable(size_t bytes) {
  if (bytes > kMostBytes) return system_error(fmt::format("mmap of {} bytes", bytes), ENOMEM);
  Regions& all = regions();
  auto region = ShareableRegion::create(bytes);
  const std::lock_guard lock(all.mutex);
  if (region.ok()) {
    std::byte* const data = (*region)->data();
    all.by_address[data] = std::move(region).value();
    // Release: who sees the new version finds the region.
    all.version.fetch_add(1, std::memory_order_release);
    return data;
  }
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return system_error(fmt::format("mmap of {} bytes", bytes), errno);
  all.ordinary[memory] = bytes;
  return static_cast<std::byte*>(memory);
}

Status free_shareable(void* memory) {
  Regions& all = regions();
  std::shared_ptr<ShareableRegion> freed;  // unmapped after the lock
  const std::lock_guard lock(all.mutex);
  if (const auto it = all.ordinary.find(memory); it != all.ordinary.end()) {
    ::munmap(memory, it->second);
    all.ordinary.erase(it);
    return {};
  }
  const auto it = all.by_address.find(static_cast<const std::byte*>(memory));
  if (it == all.by_address.end()) return invalid_argument("{} was not given by tuttiMemAlloc", memory);
  freed = std::move(it->second);
  all.by_address.erase(it);
  all.version.fetch_add(1, std::memory_order_release);
  freed->end_life();
  return {};
}

std::shared_ptr<ShareableRegion> find_shareable(const std::byte* begin, size_t bytes) {
  Regions& all = regions();
  if (shareable_version() == 0) return nullptr;
  const std::shared_lock lock(all.mutex);
  auto after = all.by_address.upper_bound(begin);
  if (after == all.by_address.begin()) return nullptr;
  const std::shared_ptr<ShareableRegion>& region = std::prev(after)->second;
  return region->holds(begin, bytes) ? region : nullptr;
}

std::shared_ptr<ShareableRegion> find_shareable(uint64_t id) {
  Regions& all = regions();
  const std::shared_lock lock(all.mutex);
  for (const auto& [address, region] : all.by_address)
    if (region->name().id == id) return region;
  return nullptr;
}

uint64_t shareable_version() { return regions().version.load(std::memory_order_acquire); }

}  // namespace tutti
