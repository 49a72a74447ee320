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
  TUTTI_TRY_ASSIGN(const CudaPlugin* plugin, cuda_plugin());
  return plugin->open(config.device.index, uint32_t{rank});
}

}  // namespace

Result<const CudaPlugin*> cuda_plugin() {
  const auto symbol = plugin_symbol("cuda", kCudaPluginSymbol);
  if (!symbol.ok())
    return invalid_usage("there is no usable GPU: {}; TUTTI_DEVICE=host or sim work without one",
                         symbol.status().message());
  const auto* plugin = static_cast<const CudaPlugin*>(symbol.value());
  if (plugin->version != TUTTI_VERSION_CODE || plugin->launch_bytes != sizeof(dev::Launch))
    return invalid_usage("the plug-in libtutti_cuda.so is of another build of Tutti; install both from one");
  if (const std::string reason = plugin->why_not(); !reason.empty())
    return invalid_usage("there is no usable GPU: {}", reason);
  return plugin;
}

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
