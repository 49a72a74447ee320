// Memory that callers get, give and copy: the host's and devices'.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "cuda/device.h"

namespace tutti {

// Device memory where the environment's TUTTI_DEVICE is sim or cuda, else null. Zeroed, page-aligned. Without a number
// there, simulated memory becomes its first user's, and CUDA's is the calling thread's current device's.
Result<void*> allocate_on_device(size_t bytes);
// False: not given by allocate_on_device().
bool free_on_device(void* pointer);
// Whether this process has any; cheap.
bool device_memory_exists();
Status copy_anywhere(void* to, const void* from, size_t bytes);

// Of a buffer of a rank on `device` (null: the host). Memory that nobody has used yet becomes that device's.
PointerKind kind_of_pointer(const void* pointer, const Device* device);

}  // namespace tutti
