#include "topo/caches.h"

#include <hwloc.h>

#include <algorithm>
#include <memory>

namespace tutti {
namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Destroy>;

// The smallest cache of a level among those above `cores`, and how many there are.
struct Level {
  uint64_t least_bytes = 0;
  uint32_t count = 0;
};
Level level_of(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_cpuset_t cores) {
  Level level;
  for (hwloc_obj_t cache = nullptr; (cache = hwloc_get_next_obj_by_type(topology, type, cache)) != nullptr;) {
    if (!hwloc_bitmap_intersects(cache->cpuset, cores)) continue;
    const uint64_t bytes = cache->attr->cache.size;
    level.least_bytes = level.count == 0 ? bytes : std::min(level.least_bytes, bytes);
    ++level.count;
  }
  return level;
}

Result<Caches> read_caches(const std::string* synthetic) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return fail(tuttiSystemError, "hwloc_topology_init failed");
  const Topology topology(raw);
  // Caches only: looking at devices would take longer than all the rest.
  hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_cache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (synthetic && hwloc_topology_set_synthetic(raw, synthetic->c_str()) != 0)
    return invalid_argument("'{}' is no machine in hwloc's notation", *synthetic);
  if (hwloc_topology_load(raw) != 0) return system_error("hwloc_topology_load", errno);

  const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> cores(hwloc_bitmap_alloc(), hwloc_bitmap_free);
  // A machine that is not this one has no binding; then all its cores count.
  if (synthetic || hwloc_get_cpubind(raw, cores.get(), HWLOC_CPUBIND_PROCESS) != 0)
    hwloc_bitmap_copy(cores.get(), hwloc_topology_get_topology_cpuset(raw));
  const Level l2 = level_of(raw, HWLOC_OBJ_L2CACHE, cores.get());
  const Level l3 = level_of(raw, HWLOC_OBJ_L3CACHE, cores.get());
  return Caches{l2.least_bytes, l3.least_bytes, std::max(l3.count > 0 ? l3.count : l2.count, 1u)};
}

}  // namespace

const Caches& machine_caches() {
  static const Caches caches = [] {
    const Result<Caches> read = read_caches(nullptr);
    return read.ok() ? read.value() : Caches{};
  }();
  return caches;
}

Result<Caches> synthetic_caches(const std::string& description) { return read_caches(&description); }

}  // namespace tutti
