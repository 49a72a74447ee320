// FifoSource: where a DeviceExecution gets the ends of the FIFOs that its plan names; what LinkSource is to the host
// engine.
#pragma once

#include "base/status.h"
#include "cuda/program.h"
#include "plan/plan.h"

namespace tutti {

// Addresses as kernels of this rank use them. Asked for the same end again, it gives the same one; it stays valid as long
// as the source lives.
class FifoSource {
 public:
  virtual ~FifoSource() = default;
  virtual Result<dev::SendFifo> send_fifo(const Peer& peer) = 0;
  virtual Result<dev::RecvFifo> recv_fifo(const Peer& peer) = 0;
};

}  // namespace tutti
