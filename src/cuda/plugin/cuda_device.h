// CudaDevice: a GPU, by the CUDA runtime.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cuda/device.h"

namespace tutti::cuda {

// See CudaPlugin.
std::string why_not();
Result<std::unique_ptr<Device>> open_device(std::optional<int> index, uint32_t rank);

}  // namespace tutti::cuda
