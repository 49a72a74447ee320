#include "cuda/sim_device.h"

#include <mutex>

#include "cuda/host_kernels.h"
#include "cuda/sim_memory.h"

namespace tutti {

std::string describe(const PointerKind& kind) {
  if (kind.where == PointerKind::Where::host) return "host memory";
  return fmt::format("memory of device {}", kind.device);
}

namespace {

// As many as a large GPU has multiprocessors.
constexpr uint32_t kMostSimBlocks = 128;

class SimRunning final : public Running {
 public:
  explicit SimRunning(std::shared_ptr<PooledLaunch> launch) : launch_(std::move(launch)) {}
  Result<bool> finished() override { return launch_->left.load(std::memory_order_acquire) == 0; }

 private:
  std::shared_ptr<PooledLaunch> launch_;
};

class SimDevice final : public Device {
 public:
  explicit SimDevice(const SimDeviceOptions& options) : options_(options), pool_(options.threads_per_block) {
    if (!options_.kernels) options_.kernels = host_kernel;
  }
  ~SimDevice() override {
    for (const sim_memory::Imported& imported : imports_) sim_memory::release(imported);
  }

  std::string_view kind() const override { return "sim"; }
  int index() const override { return options_.index; }
  int node() const override { return options_.topology.node_of(options_.index); }
  PathClass path_to(int index) const override { return options_.topology.path_between(options_.index, index); }
  const Machine* machine() const override {
    return options_.topology.file.empty() ? nullptr : &options_.topology.machine;
  }
  int index_in_node() const override { return options_.index % options_.topology.gpus_per_node; }
  uint32_t most_blocks() const override { return kMostSimBlocks; }

  Result<std::byte*> allocate(size_t bytes) override { return sim_memory::allocate(bytes, options_.index); }
  // Host memory and device memory are one; what kernels need to reach is reached by their view.
  Result<std::byte*> allocate_pinned(size_t bytes) override {
    void* memory = nullptr;
    constexpr size_t kPageBytes = 4096;
    const size_t whole = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    if (::posix_memalign(&memory, kPageBytes, whole) != 0)
      return fail(tuttiSystemError, "there is no memory for {} bytes that the host and a device share", bytes);
    std::memset(memory, 0, whole);
    return static_cast<std::byte*>(memory);
  }
  void free(std::byte* memory) override {
    if (memory && !sim_memory::free(memory)) std::free(memory);
  }
  std::byte* kernel_address(const void* pointer) const override {
    auto* address = static_cast<std::byte*>(const_cast<void*>(pointer));
    const auto found = sim_memory::find(pointer);
    return found && address < found->kernel_view ? found->kernel_view + (address - found->begin) : address;
  }
  Status copy(void* to, const void* from, size_t bytes) override { return sim_memory::copy(to, from, bytes); }
  PointerKind kind_of(const void* pointer) const override {
    const auto found = sim_memory::find(pointer);
    return found ? PointerKind{PointerKind::Where::device, found->device} : PointerKind{};
  }

  Result<std::vector<std::byte>> export_memory(const std::byte* memory) override {
    return sim_memory::describe_allocation(memory);
  }
  Result<std::byte*> import_memory(std::span<const std::byte> exported) override {
    TUTTI_TRY_ASSIGN(const sim_memory::Imported imported, sim_memory::import_allocation(exported));
    const std::lock_guard lock(mutex_);
    imports_.push_back(imported);
    return imported.kernel_view;
  }

  Result<std::unique_ptr<Running>> launch(KernelId kernel, uint32_t blocks, const dev::Launch& arguments,
                                          int event_descriptor) override {
    auto launch = std::make_shared<PooledLaunch>();
    launch->body = options_.kernels(kernel);
    launch->arguments = arguments;
    launch->weather = options_.weather;
    launch->weather.seed += ++launches_ * kMostSimBlocks;  // another order each time, the same in each run
    launch->blocks = blocks;
    launch->event_descriptor = event_descriptor;
    TUTTI_TRY(pool_.launch(launch));
    return std::unique_ptr<Running>(std::make_unique<SimRunning>(std::move(launch)));
  }

 private:
  SimDeviceOptions options_;
  uint64_t launches_ = 0;
  std::mutex mutex_;  // guards imports_
  std::vector<sim_memory::Imported> imports_;
  BlockPool pool_;  // last: its threads end before the memory that they use
};

}  // namespace

Result<std::unique_ptr<Device>> make_sim_device(const SimDeviceOptions& options) {
  if (options.index < 0 || options.index >= options.topology.gpus())
    return invalid_usage("simulated device {} does not exist; {} has devices 0 to {}", options.index,
                         show(options.topology), options.topology.gpus() - 1);
  return std::unique_ptr<Device>(std::make_unique<SimDevice>(options));
}

}  // namespace tutti
