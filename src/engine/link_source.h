// LinkSource: where an Execution gets the ends of the FIFOs that its plan names.
#pragma once

#include <memory>

#include "base/status.h"
#include "plan/plan.h"
#include "transports/transport.h"

namespace tutti {

// A send end and how many messages were ever sent on it, which is what SendLink::retired() counts against. Shared by all
// executions of a communicator.
struct SendEnd {
  std::unique_ptr<SendLink> link;
  uint64_t sent = 0;
  Rank peer;
};

// Opens each end once, keeps it for the life of the communicator. Pointers stay valid as long as the source lives.
class LinkSource {
 public:
  virtual ~LinkSource() = default;
  virtual Result<SendEnd*> send_end(const Peer& peer) = 0;
  virtual Result<RecvLink*> recv_link(const Peer& peer) = 0;
};

}  // namespace tutti
