#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bytes.h"
#include "cuda/plugin/runtime.h"

namespace tutti::cuda {
namespace {

// Which process this is, also to one in another container, where process numbers mean something else.
using Token = std::array<std::byte, 16>;
const Token& own_token() {
  static const Token token = [] {
    Token drawn{};
    if (::getrandom(drawn.data(), drawn.size(), 0) < 0) drawn = {};
    return drawn;
  }();
  return token;
}

// A stream that waits for no other: the legacy stream would wait for kernels that wait for this rank.
Result<cudaStream_t> new_stream() {
  cudaStream_t stream = nullptr;
  TUTTI_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

template <class Issue>
Status on_own_stream(Issue issue) {
  TUTTI_TRY_ASSIGN(cudaStream_t stream, new_stream());
  Status status = issue(stream);
  if (status.ok()) status = checked(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  (void)cudaStreamDestroy(stream);
  return status;
}

}  // namespace

Result<std::byte*> allocate(size_t bytes) {
  void* memory = nullptr;
  if (const cudaError_t error = cudaMalloc(&memory, bytes); error != cudaSuccess) {
    size_t left = 0, all = 0;
    (void)cudaGetLastError();
    (void)cudaMemGetInfo(&left, &all);
    return fail(tuttiSystemError, "{} bytes of device memory: {} ({} of {} MiB are free)", bytes, cudaGetErrorString(error),
                left >> 20, all >> 20);
  }
  const Status zeroed = on_own_stream([&](cudaStream_t stream) {
    return checked(cudaMemsetAsync(memory, 0, bytes, stream), "cudaMemsetAsync");
  });
  if (zeroed.ok()) return static_cast<std::byte*>(memory);
  (void)cudaFree(memory);
  return zeroed;
}

Result<std::byte*> allocate_on(std::optional<int> index, size_t bytes) {
  if (!index) return allocate(bytes);
  int devices = 0;
  TUTTI_CUDA_TRY(cudaGetDeviceCount(&devices));
  if (*index >= devices) return no_such_gpu(*index, devices);
  const Current current(*index);
  return allocate(bytes);
}

Result<std::byte*> allocate_pinned(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return fail(tuttiSystemError, "{} bytes of pinned host memory: {}", bytes, cudaGetErrorString(error));
  }
  std::memset(memory, 0, bytes);
  return static_cast<std::byte*>(memory);
}

bool free(std::byte* memory) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) return (void)cudaGetLastError(), false;
  if (attributes.type == cudaMemoryTypeUnregistered) return false;
  return (attributes.type == cudaMemoryTypeHost ? cudaFreeHost(memory) : cudaFree(memory)) == cudaSuccess;
}

Status copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return {};
  return on_own_stream([&](cudaStream_t stream) {
    return checked(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
  });
}

PointerKind kind_of(const void* pointer) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) return (void)cudaGetLastError(), PointerKind{};
  const bool on_device = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  return on_device ? PointerKind{PointerKind::Where::device, attributes.device} : PointerKind{};
}

Result<std::vector<std::byte>> export_memory(const std::byte* memory, int device) {
  cudaIpcMemHandle_t handle{};
  // Where the system has no IPC (some containers and virtual GPUs), ranks of this process still find the memory.
  const bool open_to_others = cudaIpcGetMemHandle(&handle, const_cast<std::byte*>(memory)) == cudaSuccess;
  if (!open_to_others) (void)cudaGetLastError();
  ByteWriter writer;
  writer.put_bytes(own_token());
  writer.put<int32_t>(device);
  writer.put(reinterpret_cast<uint64_t>(memory));
  writer.put<uint8_t>(open_to_others ? 1 : 0);
  writer.put_bytes(std::as_bytes(std::span(handle.reserved)));
  return writer.take();
}

Result<Imported> import_memory(std::span<const std::byte> exported, int device) {
  ByteReader reader(exported);
  const std::vector<std::byte> token = reader.get_bytes();
  const auto theirs = reader.get<int32_t>();
  const auto address = reader.get<uint64_t>();
  const bool open_to_others = reader.get<uint8_t>() != 0;
  const std::vector<std::byte> bytes = reader.get_bytes();
  cudaIpcMemHandle_t handle{};
  if (!reader.complete() || bytes.size() != sizeof handle.reserved)
    return fail(tuttiInternalError, "a malformed description of device memory");
  if (std::ranges::equal(token, own_token())) {
    if (theirs != device) {
      int reachable = 0;
      TUTTI_CUDA_TRY(cudaDeviceCanAccessPeer(&reachable, device, theirs));
      if (!reachable) return fail(tuttiSystemError, "GPU {} cannot reach the memory of GPU {} (no peer access)", device, theirs);
      const cudaError_t enabled = cudaDeviceEnablePeerAccess(theirs, 0);
      if (enabled != cudaErrorPeerAccessAlreadyEnabled) TUTTI_TRY(checked(enabled, "cudaDeviceEnablePeerAccess"));
      else (void)cudaGetLastError();
    }
    return Imported{reinterpret_cast<std::byte*>(address), false};
  }
  if (!open_to_others) return fail(tuttiSystemError, "its process could not share device memory (cudaIpcGetMemHandle)");
  std::memcpy(handle.reserved, bytes.data(), sizeof handle.reserved);
  void* memory = nullptr;
  TUTTI_CUDA_TRY(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
  return Imported{static_cast<std::byte*>(memory), true};
}

void close(const Imported& imported) {
  if (imported.opened) (void)cudaIpcCloseMemHandle(imported.memory);
}

}  // namespace tutti::cuda
