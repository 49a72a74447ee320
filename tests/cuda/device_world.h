// DeviceWorld: all ranks of one communicator on simulated GPUs of this process; and one call, made by kernels and by the
// host engine on the same drawn input, whose outputs must have the same bits.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "algorithms/algorithm.h"
#include "cuda/device_execution.h"
#include "cuda/sim_device.h"
#include "tests/engine/ensemble.h"
#include "transports/p2p/p2p.h"

namespace tutti {

struct DeviceCall {
  const Algorithm* algorithm = nullptr;
  Rank root{0};  // send: rank r sends to r + root and receives from r - root
  uint32_t lanes = 1;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  dev::Protocol protocol = dev::Protocol::simple;
  uint64_t count = 0;             // of a block
  std::vector<uint64_t> counts;   // instead: of each (all_to_all: of the block of rank s for d, at s * n + d)
  uint64_t tile_bytes = 256;
  uint64_t shift_bytes = 0;       // of the buffers from an address that is aligned to 64
  bool in_place = false;          // where the collective has one block at both ends
  uint64_t data_seed = 1;
};
std::string describe(const DeviceCall& call);

// Every rank's output.
using Outputs = std::vector<std::vector<std::byte>>;

class DeviceWorld {
 public:
  struct Options {
    Rank nranks{2};
    int threads_per_block = 64;
    dev::Weather weather;
    KernelBody (*kernels)(KernelId) = nullptr;
    Nanoseconds timeout = 0;
  };
  explicit DeviceWorld(const Options& options);
  ~DeviceWorld();

  Result<Outputs> run(const DeviceCall& call);
  // Starts only the given ranks' part of the call, for tests of what does not end well.
  DeviceExecution& start(const DeviceCall& call, Rank rank, uint64_t tag, std::vector<std::byte>& in,
                         std::vector<std::byte>& out);
  Device& device(Rank rank) { return *devices_[rank]; }
  P2pTransport& transport(Rank rank) { return *transports_[rank]; }

 private:
  Result<DeviceExecution*> player(const Algorithm& algorithm, const Shape& shape, Rank rank);

  Options options_;
  uint32_t sequence_ = 0;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<P2pTransport>> transports_;
  std::map<std::tuple<const Algorithm*, uint32_t, uint32_t, uint32_t>, std::unique_ptr<DeviceExecution>> players_;
};

Result<Outputs> run_on_host(Ensemble& ensemble, const DeviceCall& call);
// Both, and the first difference as an error.
Status compare(DeviceWorld& world, Ensemble& ensemble, const DeviceCall& call);

}  // namespace tutti
