// The CUDA runtime in our words: errors as Status, the current device for as long as it is needed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "cuda/device.h"

namespace tutti::cuda {

// tuttiUnhandledDeviceError with the call and CUDA's name and words for the error.
inline Status checked(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();  // errors that are no lasting damage are forgotten, or the next call would tell them
  return fail(tuttiUnhandledDeviceError, "{}: {} ({})", call, cudaGetErrorString(error), cudaGetErrorName(error));
}
#define TUTTI_CUDA_TRY(call) TUTTI_TRY(::tutti::cuda::checked(call, #call))

inline Status no_such_gpu(int index, int devices) {
  return invalid_usage("TUTTI_DEVICE=cuda:{}: there is no such GPU; there are {}, from 0 on", index, devices);
}

// The calling thread's current device, put back at the end.
class Current {
 public:
  explicit Current(int device) {
    (void)cudaGetDevice(&before_);
    if (before_ != device) (void)cudaSetDevice(device);
  }
  ~Current() { (void)cudaSetDevice(before_); }
  Current(const Current&) = delete;

 private:
  int before_ = 0;
};

// ---- memory (memory.cc); see CudaPlugin and Device
Result<std::byte*> allocate(size_t bytes);  // on the current device
Result<std::byte*> allocate_on(std::optional<int> index, size_t bytes);
Result<std::byte*> allocate_pinned(size_t bytes);
// Of either kind. False: of neither.
bool free(std::byte* memory);
// Blocks until it is done; not ordered with other streams.
Status copy(void* to, const void* from, size_t bytes);
PointerKind kind_of(const void* pointer);

// How another rank of this host comes to an allocation of this device, and where it finds it. Of this process: at the same
// address, once its device may be reached from the current one. Else by a CUDA IPC handle, to be closed with close().
Result<std::vector<std::byte>> export_memory(const std::byte* memory, int device);
struct Imported {
  std::byte* memory = nullptr;
  bool opened = false;
};
Result<Imported> import_memory(std::span<const std::byte> exported, int device);
void close(const Imported& imported);

}  // namespace tutti::cuda
