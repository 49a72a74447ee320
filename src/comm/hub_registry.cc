#include "comm/hub_registry.h"

#include <unistd.h>

#include <map>
#include <mutex>

namespace tutti {
namespace {

struct Registry {
  std::mutex mutex;
  struct Entry {
    std::shared_ptr<Hub> untaken;  // until the first communicator comes
    std::weak_ptr<Hub> hub;
    pid_t maker = ::getpid();
  };
  std::map<std::array<std::byte, kSecretBytes>, Entry> entries;
};

// Never destroyed: a hub that nobody took would otherwise end in the middle of the process's exit.
Registry& registry() {
  static Registry* const registry = new Registry;
  return *registry;
}

}  // namespace

Result<MeetingPoint> open_hub(const Config& config) {
  TUTTI_TRY_ASSIGN(std::shared_ptr<Hub> hub, Hub::create(config));
  const MeetingPoint point = hub->meeting_point();
  std::lock_guard lock(registry().mutex);
  std::erase_if(registry().entries, [](const auto& entry) { return entry.second.hub.expired(); });
  registry().entries[point.key] = Registry::Entry{hub, hub};
  return point;
}

std::shared_ptr<Hub> take_hub(const MeetingPoint& point) {
  std::lock_guard lock(registry().mutex);
  const auto it = registry().entries.find(point.key);
  // A forked child has a copy of the entry, but the hub's thread is in its parent, and ends with the parent's own hub.
  if (it == registry().entries.end() || it->second.maker != ::getpid()) return nullptr;
  std::shared_ptr<Hub> hub = it->second.hub.lock();
  it->second.untaken.reset();
  return hub;
}

}  // namespace tutti
