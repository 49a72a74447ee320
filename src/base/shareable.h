// Shareable memory: what tuttiMemAlloc gives. Memory that the other processes of this user on this host can map, so that
// a collective reads it or writes to it where it lies instead of passing it through slots.
//
// A region is a memfd. It has no name in any file system: others open it through /proc/PID/fd, and it is gone with the
// last process that maps it. Every region costs its process one file descriptor. A region that was freed stays mapped by
// those who still hold its ShareableRegion: nothing that a late peer touches is ever unmapped under it.
//
// Thread-safe. A forked child sees the same memory as its parent, not a copy.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/fork.h"
#include "base/status.h"

namespace tutti {

// By which another process finds a region of a process that it knows. Goes through shared memory.
struct RegionName {
  uint64_t id = 0;         // random: no two regions of a host have the same
  uint64_t bytes = 0;
  int32_t descriptor = -1; // its number in the owner
};

class ShareableRegion {
 public:
  static Result<std::shared_ptr<ShareableRegion>> create(size_t bytes);
  // A region of another process, mapped here; fails when that process has freed it.
  static Result<std::shared_ptr<ShareableRegion>> map(pid_t owner, const RegionName& name);
  ~ShareableRegion();
  ShareableRegion(const ShareableRegion&) = delete;
  ShareableRegion& operator=(const ShareableRegion&) = delete;

  std::byte* data() const { return data_; }
  const RegionName& name() const { return name_; }
  bool holds(const std::byte* begin, size_t bytes) const {
    return begin >= data_ && bytes <= name_.bytes && static_cast<size_t>(begin - data_) <= name_.bytes - bytes;
  }
  // Its owner has not freed it.
  bool alive() const;
  // The owner's part of freeing it. In a forked child of the owner: nothing, the parent goes on using it.
  void end_life();

 private:
  struct Header;
  ShareableRegion(Fd memfd, RegionName name, std::byte* data);
  // The header lies behind the data, so that the data begins at an offset that huge pages can have.
  Header& header() const;

  const Fd memfd_;  // of the owner
  const RegionName name_;
  std::byte* const data_;
  const uint64_t made_in_ = fork_generation();
};

// Page-aligned and zero. Where a memfd cannot be had (descriptors, file size limit), ordinary memory that no peer can map.
Result<std::byte*> allocate_shareable(size_t bytes);
Status free_shareable(void* memory);

// This process's region that holds all of [begin, begin + bytes), if one does. About 30 ns; keep the answer while
// shareable_version() stays the same.
std::shared_ptr<ShareableRegion> find_shareable(const std::byte* begin, size_t bytes);
// This process's region of that name, for ranks that share a process.
std::shared_ptr<ShareableRegion> find_shareable(uint64_t id);
// Changes with every allocate and free; 0 while there never was a region.
uint64_t shareable_version();

}  // namespace tutti
