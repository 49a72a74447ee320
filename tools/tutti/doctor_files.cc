#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tutti/doctor.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

// The first line of a small file; empty where there is none.
std::string line_of(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

double number_of(const fs::path& path, double otherwise) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? value : otherwise;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

// ---- network

// Cards alone: bridges and tunnels have no device of their own.
void look_at_links(const fs::path& root, std::vector<Finding>& found) {
  std::vector<std::string> good;
  for (const fs::path& link : entries_of(root / "sys/class/net")) {
    const std::string name = link.filename();
    if (name == "lo" || !fs::exists(link / "device")) continue;
    const std::string state = line_of(link / "operstate");
    const double speed = number_of(link / "speed", -1), mtu = number_of(link / "mtu", 0);
    if (state == "down") {
      found.push_back(
          {Severity::warning, fmt::format("network link {} is down", name),
           fmt::format("plug its cable or `ip link set {} up`, or leave it out: TUTTI_SOCKET_IFNAME=^{}", name, name)});
    } else if (speed > 0 && speed < 1000) {
      found.push_back({Severity::warning, fmt::format("network link {} runs at {} Mb/s", name, speed),
                       "look at its cable and its switch port; 1 Gb/s is the least that is worth using"});
    } else {
      good.push_back(speed > 0 ? fmt::format("{} ({} Gb/s, MTU {})", name, speed / 1000, mtu)
                               : fmt::format("{} (MTU {})", name, mtu));
    }
  }
  if (!good.empty()) found.push_back({Severity::fine, fmt::format("network links: {}", fmt::join(good, ", ")), ""});
}

void look_at_rdma(const fs::path& root, std::vector<Finding>& found) {
  for (const fs::path& device : entries_of(root / "sys/class/infiniband"))
    for (const fs::path& port : entries_of(device / "ports")) {
      const std::string state = line_of(port / "state");  // "4: ACTIVE"
      const std::string name = fmt::format("{} port {}", device.filename().string(), port.filename().string());
      if (state.find("ACTIVE") == std::string::npos)
        found.push_back({Severity::warning,
                         fmt::format("RDMA device {} is {}", name, state.empty() ? "unknown" : state),
                         "look at its cable; on InfiniBand a subnet manager must run"});
      else
        found.push_back(
            {Severity::note, fmt::format("RDMA device {} is active", name), "this release uses it through TCP only"});
    }
}

// ---- cores and memory

void look_at_cores(const fs::path& root, std::vector<Finding>& found) {
  double quota = 0, period = 0;
  std::ifstream file(root / "sys/fs/cgroup/cpu.max");
  if (file >> quota >> period && quota > 0 && period > 0)
    found.push_back({Severity::note, fmt::format("this container may use {:.1f} cores", quota / period),
                     "start no more ranks than that on this host"});
  std::ifstream load_file(root / "proc/loadavg");
  double load = 0;
  double cores = 0;
  for (const fs::path& path : entries_of(root / "sys/devices/system/cpu")) {
    const std::string name = path.filename();  // "cpu12", and "cpufreq" beside them
    cores += name.starts_with("cpu") && name.size() > 3 && name[3] >= '0' && name[3] <= '9';
  }
  if (load_file >> load && cores > 0) {
    if (load > 1.25 * cores)
      found.push_back({Severity::warning, fmt::format("{:.1f} threads want to run on {} cores", load, cores),
                       "ranks that share cores wait for each other: end what else runs here, or start fewer ranks"});
    else
      found.push_back(
          {Severity::fine, fmt::format("{} cores, of which {:.1f} were busy in the last minute", cores, load), ""});
  }
}

void look_at_memory(const fs::path& root, std::vector<Finding>& found) {
  constexpr double kMib = 1 << 20, kLeast = 256;
  double limit = 0;
  if (std::ifstream(root / "sys/fs/cgroup/memory.max") >> limit && limit / kMib < kLeast)
    found.push_back({Severity::warning, fmt::format("this container may use {:.0f} MiB of memory", limit / kMib),
                     "links of shared memory take up to 2 MiB a rank, buffers come on top: raise the limit"});
}

// ---- devices

// PCI's access control services send what devices write to each other up to the processor and back.
bool redirects_peers(const fs::path& device) {
  std::ifstream file(device / "config", std::ios::binary);
  std::vector<unsigned char> config((std::istreambuf_iterator<char>(file)), {});
  constexpr uint32_t kAcs = 0x0d;
  constexpr unsigned kRequestRedirect = 4;
  if (config.size() < 4096) return false;  // root alone reads so far
  for (size_t at = 0x100, steps = 0; at != 0 && at + 8 <= config.size() && steps < 64; ++steps) {
    const uint32_t head =
        config[at] | config[at + 1] << 8 | config[at + 2] << 16 | static_cast<uint32_t>(config[at + 3]) << 24;
    if ((head & 0xffff) == kAcs) return (config[at + 6] & kRequestRedirect) != 0;
    at = head >> 20;
  }
  return false;
}

void look_at_pci(const fs::path& root, std::vector<Finding>& found) {
  bool gpus = false;
  std::vector<std::string> redirecting;
  for (const fs::path& device : entries_of(root / "sys/bus/pci/devices")) {
    const std::string code = line_of(device / "class");  // "0x060400"
    gpus |= code.starts_with("0x0302") || code.starts_with("0x1200");
    if (code.starts_with("0x0604") && redirects_peers(device)) redirecting.push_back(device.filename());
  }
  const std::string command_line = line_of(root / "proc/cmdline");
  const bool iommu = !entries_of(root / "sys/class/iommu").empty();
  if (gpus && iommu && command_line.find("iommu=pt") == std::string::npos)
    found.push_back(
        {Severity::warning, "the IOMMU translates what devices write to each other",
         "GPUs and cards copy to each other at a fraction of the speed, or not at all: boot with iommu=pt"});
  if (gpus && !redirecting.empty())
    found.push_back({Severity::warning,
                     fmt::format("PCI bridges send traffic between devices through the processor (ACS): {}",
                                 fmt::join(redirecting, ", ")),
                     "switch ACS off in the firmware, or by setpci, on hosts that run no virtual machines"});
}

// ---- processes

void look_at_processes(const fs::path& root, std::vector<Finding>& found) {
  std::ifstream mounts(root / "proc/mounts");
  for (std::string line; std::getline(mounts, line);)
    if (line.find(" /proc ") != std::string::npos && line.find("hidepid=") != std::string::npos &&
        line.find("hidepid=0") == std::string::npos)
      found.push_back({Severity::warning, "/proc hides processes from others (hidepid)",
                       "ranks of one user see each other; of several users they use tcp instead of shared memory"});
  const double scope = number_of(root / "proc/sys/kernel/yama/ptrace_scope", 0);
  if (scope > 0)
    found.push_back({Severity::note, fmt::format("processes may not trace each other (ptrace_scope {})", scope),
                     "shared memory does not need it; debuggers and UCX's copies between processes do"});
  const double backlog = number_of(root / "proc/sys/net/core/somaxconn", 4096);
  if (backlog < 1024)
    found.push_back({Severity::warning, fmt::format("a listener may have {} connections waiting (somaxconn)", backlog),
                     "jobs of more ranks than that start slowly: sysctl net.core.somaxconn=4096"});
}

}  // namespace

std::vector<Finding> examine_files(const std::string& root) {
  const fs::path from = root.empty() ? "/" : root;
  std::vector<Finding> found;
  for (const auto look : {look_at_links, look_at_rdma, look_at_cores, look_at_memory, look_at_pci, look_at_processes})
    look(from, found);
  return found;
}

}  // namespace tutti
