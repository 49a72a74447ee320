#include "comm/memory.h"

#include <atomic>

#include "base/config.h"
#include "comm/open_device.h"
#include "cuda/sim_memory.h"

namespace tutti {
namespace {

// Once this process has memory of GPUs.
std::atomic<const CudaPlugin*> gpus{nullptr};

}  // namespace

Result<void*> allocate_on_device(size_t bytes) {
  TUTTI_TRY_ASSIGN(const Config config, config_from_environment());
  std::byte* memory = nullptr;
  switch (config.device.kind) {
    case DeviceChoice::Kind::host:
      break;
    case DeviceChoice::Kind::sim: {
      TUTTI_TRY_ASSIGN(memory, sim_memory::allocate(bytes, config.device.index.value_or(sim_memory::kNoDeviceYet)));
      break;
    }
    case DeviceChoice::Kind::cuda: {
      TUTTI_TRY_ASSIGN(const CudaPlugin* plugin, cuda_plugin());
      TUTTI_TRY_ASSIGN(memory, plugin->allocate(config.device.index, bytes));
      gpus.store(plugin, std::memory_order_release);
      break;
    }
  }
  return static_cast<void*>(memory);
}

bool free_on_device(void* pointer) {
  auto* const memory = static_cast<std::byte*>(pointer);
  if (sim_memory::free(memory)) return true;
  const CudaPlugin* plugin = gpus.load(std::memory_order_acquire);
  return plugin && plugin->free(memory);
}

bool device_memory_exists() { return sim_memory::exists() || gpus.load(std::memory_order_relaxed); }

Status copy_anywhere(void* to, const void* from, size_t bytes) {
  if (const CudaPlugin* plugin = gpus.load(std::memory_order_acquire)) return plugin->copy(to, from, bytes);
  return sim_memory::copy(to, from, bytes);
}

PointerKind kind_of_pointer(const void* pointer, const Device* device) {
  if (device) {
    sim_memory::claim(pointer, device->index());
    return device->kind_of(pointer);
  }
  if (const CudaPlugin* plugin = gpus.load(std::memory_order_acquire)) return plugin->kind_of(pointer);
  const auto found = sim_memory::find(pointer);
  return found ? PointerKind{PointerKind::Where::device, found->device} : PointerKind{};
}

}  // namespace tutti
