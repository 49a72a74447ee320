// SimDevice: a GPU that is not there. The same kernels, on fibers (block.h); memory in memfds (sim_memory.h).
#pragma once

#include <memory>

#include "cuda/block_pool.h"
#include "cuda/device.h"
#include "cuda/sim_topology.h"

namespace tutti {

struct SimDeviceOptions {
  int index = 0;
  SimTopology topology;
  // Two warps, so that what warps must not rely on shows, at a cost that lets eight ranks share a laptop's core.
  int threads_per_block = 64;
  dev::Weather weather;
  KernelBody (*kernels)(KernelId) = nullptr;  // for tests; null: the real ones
};

// Errors: tuttiInvalidUsage for an index that the topology does not have.
Result<std::unique_ptr<Device>> make_sim_device(const SimDeviceOptions& options);

}  // namespace tutti
