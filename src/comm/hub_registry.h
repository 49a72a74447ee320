// The hubs that this process holds. tuttiGetUniqueId makes one before there is a communicator; the communicators of this
// process that meet there then share it, and it ends with the last of them.
#pragma once

#include <memory>

#include "bootstrap/rendezvous.h"

namespace tutti {

// Makes a hub and keeps it until a communicator takes it.
Result<MeetingPoint> open_hub(const Config& config);
// The hub of `point`, when this process holds it; null otherwise.
std::shared_ptr<Hub> take_hub(const MeetingPoint& point);

}  // namespace tutti
