// The move kernel's instances for the CPU.
#pragma once

#include "cuda/block_pool.h"
#include "cuda/device.h"

namespace tutti {

KernelBody host_kernel(KernelId id);

}  // namespace tutti
