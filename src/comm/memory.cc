#include "comm/memory.h"

#include "base/config.h"
#include "cuda/sim_memory.h"

namespace tutti {

Result<void*> allocate_on_device(size_t bytes) {
  TUTTI_TRY_ASSIGN(const Config config, config_from_environment());
  if (config.device.kind != DeviceChoice::Kind::sim) return static_cast<void*>(nullptr);
  TUTTI_TRY_ASSIGN(std::byte * memory, sim_memory::allocate(bytes, config.device.index.value_or(sim_memory::kNoDeviceYet)));
  return static_cast<void*>(memory);
}

bool free_on_device(void* pointer) { return sim_memory::free(static_cast<std::byte*>(pointer)); }

bool device_memory_exists() { return sim_memory::exists(); }

Status copy_anywhere(void* to, const void* from, size_t bytes) { return sim_memory::copy(to, from, bytes); }

PointerKind kind_of_pointer(const void* pointer, const Device* device) {
  if (device) {
    sim_memory::claim(pointer, device->index());
    return device->kind_of(pointer);
  }
  const auto found = sim_memory::find(pointer);
  return found ? PointerKind{PointerKind::Where::device, found->device} : PointerKind{};
}

}  // namespace tutti
