// Memory of simulated GPUs: a memfd for each allocation.
//
// What the caller gets cannot be read or written: an access by mistake ends in SIGSEGV, as it does on many a GPU. The
// kernels' view of the same bytes lies beside it. Other processes come to it through /proc/PID/fd, so nothing has a name
// and nothing is left behind. One table for the process; any thread.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/status.h"

namespace tutti::sim_memory {

constexpr int kNoDeviceYet = -1;  // of memory that becomes its first user's
// `device`: whose memory it is. Page-aligned, zeroed.
Result<std::byte*> allocate(size_t bytes, int device);
// False: nothing was allocated there.
bool free(std::byte* memory);

// Whether anything is allocated. A relaxed look.
bool exists();
// Memory that is no device's yet becomes that one's.
void claim(const void* pointer, int device);

struct Found {
  std::byte* begin;        // the caller's
  std::byte* kernel_view;  // of begin
  size_t bytes;
  int device;
};
// The allocation that holds `pointer`.
std::optional<Found> find(const void* pointer);

// Between any two places, device memory of either by the kernels' view.
Status copy(void* to, const void* from, size_t bytes);

// How other ranks of this host find an allocation, and the kernels' view of one there. Memory of this process is not
// mapped twice.
Result<std::vector<std::byte>> describe_allocation(const std::byte* memory);
struct Imported {
  std::byte* kernel_view = nullptr;
  size_t mapped_bytes = 0;  // 0: of this process
};
Result<Imported> import_allocation(std::span<const std::byte> description);
void release(const Imported& imported);

}  // namespace tutti::sim_memory
