#include "comm/open_device.h"

#include "comm/plugin.h"
#include "cuda/sim_device.h"

namespace tutti {
namespace {

Result<std::unique_ptr<Device>> open_simulated(const Config& config, Rank rank) {
  SimDeviceOptions options;
  TUTTI_TRY_ASSIGN(options.topology, parse_sim_topology(config.sim_topo));
  options.index = config.device.index.value_or(static_cast<int>(rank % static_cast<uint32_t>(options.topology.gpus())));
  return make_sim_device(options);
}

Result<std::unique_ptr<Device>> open_gpu(const Config& config, Rank rank) {
  const auto symbol = plugin_symbol("cuda", "tutti_cuda_probe");
  if (!symbol.ok())
    return invalid_usage("there is no usable GPU: {}; TUTTI_DEVICE=host or sim work without one",
                         symbol.status().message());
  // Fills `reason` (of `bytes`) and returns non-zero where there is no usable GPU.
  using Probe = int (*)(char* reason, size_t bytes);
  char reason[256] = "";
  if (reinterpret_cast<Probe>(symbol.value())(reason, sizeof reason) != 0)
    return invalid_usage("there is no usable GPU: {}", reason);
  return invalid_usage("GPU {} answers, but this release runs its kernels only on simulated GPUs (TUTTI_DEVICE=sim)",
                       config.device.index.value_or(static_cast<int>(rank)));
}

}  // namespace

Result<std::unique_ptr<Device>> open_device(const Config& config, Rank rank) {
  switch (config.device.kind) {
    case DeviceChoice::Kind::sim:
      return open_simulated(config, rank);
    case DeviceChoice::Kind::cuda:
      return open_gpu(config, rank);
    case DeviceChoice::Kind::host:
      break;
  }
  return std::unique_ptr<Device>();
}

}  // namespace tutti
