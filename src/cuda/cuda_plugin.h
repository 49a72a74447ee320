// What libtutti_cuda.so exports: one constant of C linkage by the name of kCudaPluginSymbol. Library and plug-in share C++
// types and are of one build; the plug-in has copies of its own of base/ and topo/.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cuda/device.h"
#include "tutti/tutti.h"

namespace tutti {

inline constexpr const char* kCudaPluginSymbol = "tutti_cuda_plugin";

struct CudaPlugin {
  // The loader refuses a plug-in that differs in these.
  int version = TUTTI_VERSION_CODE;
  size_t launch_bytes = sizeof(dev::Launch);

  // Why no GPU can be used here; empty where there is one.
  std::string (*why_not)() = nullptr;
  // The GPU of that number, or for rank r without one GPU r, modulo their number. Becomes the calling thread's current
  // device. Errors: tuttiInvalidUsage for a number that is not there, tuttiUnhandledDeviceError.
  Result<std::unique_ptr<Device>> (*open)(std::optional<int> index, uint32_t rank) = nullptr;

  // ---- memory that callers get. See Device.
  // On the GPU of that number, or the calling thread's current one.
  Result<std::byte*> (*allocate)(std::optional<int> index, size_t bytes) = nullptr;
  // False: `memory` is not a GPU's.
  bool (*free)(std::byte* memory) = nullptr;
  Status (*copy)(void* to, const void* from, size_t bytes) = nullptr;
  PointerKind (*kind_of)(const void* pointer) = nullptr;
};

}  // namespace tutti
