#include "comm/topology_dump.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "topo/probe.h"
#include "topo/write.h"

namespace tutti {

Status dump_topology(const Config& config, const Machine* known) {
  if (config.topo_dump_file.empty()) return {};
  const std::string path = expand_log_path(config.topo_dump_file);
  const std::string name = fmt::format("TUTTI_TOPO_DUMP_FILE={}", path);
  const Result<Machine> machine = known ? Result<Machine>(*known) : probe_machine();
  if (!machine.ok()) return machine.status().within(name);
  const std::string text = path.ends_with(".xml") ? to_nccl_xml(machine.value()) : to_json(machine.value());
  constexpr mode_t kMode = 0644;
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!file) return system_error("open", errno).within(name);
  for (size_t written = 0; written < text.size();) {
    const ssize_t wrote = ::write(file.get(), text.data() + written, text.size() - written);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return system_error("write", errno).within(name);
    written += static_cast<size_t>(wrote);
  }
  return {};
}

}  // namespace tutti
