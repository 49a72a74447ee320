#include "transports/shm/regions.h"

#include <algorithm>

#include "base/log.h"

namespace tutti::shm {
namespace {

// Entries of regions that cannot be mapped are kept up to here.
constexpr size_t kMostEntries = 256;

}  // namespace

std::shared_ptr<ShareableRegion> PeerRegions::find(const RegionName& name, const pid_t* owner) {
  const auto known = std::ranges::find(entries_, name.id, &Entry::id);
  if (known != entries_.end()) return known->region;
  // Something new is the time to let go of what its owner has freed. Links that still hold such a region keep it mapped.
  std::erase_if(entries_, [&](const Entry& e) {
    return e.region ? !e.region->alive() : entries_.size() > kMostEntries;
  });
  Entry entry{name.id, nullptr};
  if (!owner) {
    entry.region = find_shareable(name.id);
  } else if (auto region = ShareableRegion::map(*owner, name); region.ok()) {
    entry.region = std::move(region).value();
  } else {
    log(LogLevel::info, Subsystem::shm, -1, "memory of process {} is copied through slots: {}", *owner,
        region.status().message());
  }
  entries_.push_back(entry);
  return entries_.back().region;
}

}  // namespace tutti::shm
