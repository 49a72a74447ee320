#include "cuda/plugin/cuda_device.h"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "cuda/plugin/kernel_table.h"
#include "cuda/plugin/runtime.h"
#include "topo/fabric.h"
#include "topo/probe.h"

namespace tutti::cuda {
namespace {

// What the end of a kernel is told by: from a thread of CUDA's, when the stream gets there.
struct Ending {
  std::atomic<bool> ended{false};  // release: what the kernel wrote is seen by who sees it
  int event_descriptor = -1;
};

void tell_end(void* pointer) {
  const std::unique_ptr<std::shared_ptr<Ending>> held(static_cast<std::shared_ptr<Ending>*>(pointer));
  Ending& ending = **held;
  const int descriptor = ending.event_descriptor;
  ending.ended.store(true, std::memory_order_release);
  const uint64_t one = 1;
  if (descriptor >= 0) [[maybe_unused]]
    const auto wrote = ::write(descriptor, &one, sizeof one);
}

class CudaRunning final : public Running {
 public:
  CudaRunning(std::shared_ptr<Ending> ending, cudaStream_t stream) : ending_(std::move(ending)), stream_(stream) {}

  Result<bool> finished() override {
    if (ending_->ended.load(std::memory_order_acquire)) return true;
    // A kernel that failed ends the stream's work without a word.
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state == cudaErrorNotReady) return (void)cudaGetLastError(), false;
    if (state != cudaSuccess) return checked(state, "the move kernel");
    return ending_->ended.load(std::memory_order_acquire);
  }

 private:
  std::shared_ptr<Ending> ending_;
  cudaStream_t stream_;
};

std::string bus_id_of(int index) {
  char text[32] = "";
  return cudaDeviceGetPCIBusId(text, sizeof text, index) == cudaSuccess ? text : "";
}

// This host as its GPUs and what joins them are known; numbers are CUDA's, which need not be the host's.
struct Surface {
  Machine machine;
  std::vector<int32_t> places;  // of CUDA's devices in machine.gpus; kNone: hwloc has not found it
};
Surface look_at_machine(int devices) {
  Surface surface;
  if (Result<Machine> probed = probe_machine(); probed.ok()) surface.machine = std::move(probed).value();
  for (int i = 0; i < devices; ++i) {
    int32_t place = kNone;
    BusId bus;
    if (parse_bus_id(bus_id_of(i), bus))
      for (uint32_t g = 0; g < surface.machine.gpus.size(); ++g)
        if (surface.machine.pci[surface.machine.gpus[g].pci].bus == bus) place = static_cast<int32_t>(g);
    surface.places.push_back(place);
  }
  return surface;
}

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, int devices, uint32_t blocks, cudaStream_t stream)
      : index_(index), blocks_(blocks), stream_(stream), surface_(look_at_machine(devices)) {}
  ~CudaDevice() override {
    const Current current(index_);
    (void)cudaStreamSynchronize(stream_);
    for (const Imported& imported : imports_) close(imported);
    (void)cudaStreamDestroy(stream_);
  }

  std::string_view kind() const override { return "cuda"; }
  int index() const override { return index_; }
  int node() const override { return 0; }
  PathClass path_to(int index) const override {
    if (index == index_) return PathClass::loc;
    // Atomics between GPUs work by NVLink and not by PCI.
    int atomics = 0;
    (void)cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, index_, index);
    if (atomics) return PathClass::nvl;
    (void)cudaGetLastError();
    const int32_t from = place_of(index_), to = place_of(index);
    if (from == kNone || to == kNone) return PathClass::sys;
    return Fabric(surface_.machine).between_gpus(static_cast<uint32_t>(from), static_cast<uint32_t>(to)).path_class;
  }
  const Machine* machine() const override { return surface_.machine.gpus.empty() ? nullptr : &surface_.machine; }
  int index_in_node() const override { return place_of(index_) == kNone ? index_ : place_of(index_); }
  uint32_t most_blocks() const override { return blocks_; }

  Result<std::byte*> allocate(size_t bytes) override {
    const Current current(index_);
    return cuda::allocate(bytes);
  }
  Result<std::byte*> allocate_pinned(size_t bytes) override {
    const Current current(index_);
    return cuda::allocate_pinned(bytes);
  }
  void free(std::byte* memory) override {
    const Current current(index_);
    if (memory) (void)cuda::free(memory);
  }
  std::byte* kernel_address(const void* pointer) const override {
    return static_cast<std::byte*>(const_cast<void*>(pointer));  // one address for all processors
  }
  Status copy(void* to, const void* from, size_t bytes) override {
    const Current current(index_);
    return cuda::copy(to, from, bytes);
  }
  PointerKind kind_of(const void* pointer) const override { return cuda::kind_of(pointer); }

  Result<std::vector<std::byte>> export_memory(const std::byte* memory) override {
    const Current current(index_);
    return cuda::export_memory(memory, index_);
  }
  Result<std::byte*> import_memory(std::span<const std::byte> exported) override {
    const Current current(index_);
    TUTTI_TRY_ASSIGN(const Imported imported, cuda::import_memory(exported, index_));
    const std::lock_guard lock(mutex_);
    imports_.push_back(imported);
    return imported.memory;
  }

  Result<std::unique_ptr<Running>> launch(KernelId kernel, uint32_t blocks, const dev::Launch& arguments,
                                          int event_descriptor) override {
    const Current current(index_);
    auto ending = std::make_shared<Ending>();
    ending->event_descriptor = event_descriptor;
    void* parameters[] = {const_cast<dev::Launch*>(&arguments)};
    TUTTI_CUDA_TRY(cudaLaunchKernel(kernel_of(kernel.type, kernel.op), dim3(blocks), dim3(kThreadsPerBlock), parameters, 0,
                                    stream_));
    auto* const held = new std::shared_ptr<Ending>(ending);
    if (const cudaError_t error = cudaLaunchHostFunc(stream_, tell_end, held); error != cudaSuccess) {
      delete held;
      return checked(error, "cudaLaunchHostFunc");
    }
    return std::unique_ptr<Running>(std::make_unique<CudaRunning>(std::move(ending), stream_));
  }

 private:
  int32_t place_of(int index) const {
    return index < static_cast<int>(surface_.places.size()) ? surface_.places[static_cast<size_t>(index)] : kNone;
  }

  const int index_;
  const uint32_t blocks_;
  const cudaStream_t stream_;
  const Surface surface_;
  std::mutex mutex_;  // guards imports_
  std::vector<Imported> imports_;
};

// All blocks of a launch must run at once, or lanes wait for lanes that never start.
Result<uint32_t> blocks_at_once(int index) {
  int multiprocessors = 0, each = 0;
  TUTTI_CUDA_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, index));
  TUTTI_CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel_of(DataType::float32, ReduceOp::sum),
                                                              kThreadsPerBlock, 0));
  if (each < 1)
    return fail(tuttiUnhandledDeviceError, "GPU {} has no room for a block of {} threads; is the plug-in built for it? "
                "(TUTTI_CUDA_ARCHITECTURES)", index, kThreadsPerBlock);
  return static_cast<uint32_t>(multiprocessors * each);
}

}  // namespace

std::string why_not() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) return {};
  int driver = 0, runtime = 0;
  (void)cudaGetLastError();
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  if (error == cudaSuccess) return "the driver finds no GPU";
  if (driver == 0) return fmt::format("no NVIDIA driver is installed ({})", cudaGetErrorName(error));
  return fmt::format("{} (the driver is for CUDA {}, the plug-in needs {})", cudaGetErrorString(error), driver, runtime);
}

Result<std::unique_ptr<Device>> open_device(std::optional<int> index, uint32_t rank) {
  int devices = 0;
  TUTTI_CUDA_TRY(cudaGetDeviceCount(&devices));
  const int chosen = index.value_or(static_cast<int>(rank % static_cast<uint32_t>(devices)));
  if (chosen >= devices) return no_such_gpu(chosen, devices);
  TUTTI_CUDA_TRY(cudaSetDevice(chosen));
  TUTTI_TRY_ASSIGN(const uint32_t blocks, blocks_at_once(chosen));
  cudaStream_t stream = nullptr;
  TUTTI_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(chosen, devices, blocks, stream));
}

}  // namespace tutti::cuda
