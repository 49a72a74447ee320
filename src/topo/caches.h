// Caches: how large the caches of this process's cores are, from hwloc.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace tutti {

// Of those that the usable cores have, the smallest: what a rank can count on wherever it runs.
struct Caches {
  uint64_t l2_bytes = 0;           // of one core; 0: not known (some virtual machines hide it)
  uint64_t l3_bytes = 0;           // of one last-level cache; 0: not known, or there is none
  uint32_t last_level_caches = 1;  // that the usable cores are spread over
  bool operator==(const Caches&) const = default;
};

// Of this machine. hwloc takes 5 to 10 ms for it, so it is asked once in a process. All unknown where it fails.
// Thread-safe.
const Caches& machine_caches();

// Of a machine in hwloc's synthetic notation, "pack:2 l3:1(size=33554432) l2:4(size=524288) pu:1".
Result<Caches> synthetic_caches(const std::string& description);

}  // namespace tutti
