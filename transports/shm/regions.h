// PeerRegions: the shareable memory of another rank, as far as this rank has mapped it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "base/shareable.h"

namespace tutti::shm {

class PeerRegions {
 public:
  // Where the region is mapped here, at the first call for it by mmap (about 20 us, and a page fault for each page that
  // is then used); null: it cannot be mapped, which is remembered. `owner`: the process, null when it is this one.
  std::shared_ptr<ShareableRegion> find(const RegionName& name, const pid_t* owner);

 private:
  struct Entry {
    uint64_t id;
    std::shared_ptr<ShareableRegion> region;  // null: it cannot be mapped
  };
  std::vector<Entry> entries_;
};

}  // namespace tutti::shm
