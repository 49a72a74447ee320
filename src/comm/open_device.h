// The device that a rank's configuration names.
#pragma once

#include <memory>

#include "base/config.h"
#include "base/strong_int.h"
#include "cuda/cuda_plugin.h"
#include "cuda/device.h"

namespace tutti {

// Null for the host. Without an index in the configuration rank r has device r, modulo the number of devices. Errors:
// tuttiInvalidUsage, with why there is no such device.
Result<std::unique_ptr<Device>> open_device(const Config& config, Rank rank);

// The CUDA plug-in, loaded at the first call. Errors: tuttiInvalidUsage, with why it cannot serve: it is not installed, is of
// another build, or finds no driver or no GPU.
Result<const CudaPlugin*> cuda_plugin();

}  // namespace tutti
