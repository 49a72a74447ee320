#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/config.h"
#include "base/fd.h"
#include "base/network_interface.h"
#include "topo/cores.h"
#include "topo/fabric.h"
#include "topo/probe.h"
#include "tutti/commands.h"
#include "tutti/doctor.h"

namespace tutti {
namespace {

constexpr double kMib = 1 << 20;

void look_at_limits(std::vector<Finding>& found) {
  rlimit files{}, locked{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  ::getrlimit(RLIMIT_MEMLOCK, &locked);
  constexpr rlim_t kFewFiles = 1024;
  if (files.rlim_cur < kFewFiles)
    found.push_back({Severity::warning, fmt::format("this process may open {} files", files.rlim_cur),
                     "links to many ranks take a descriptor each: ulimit -n 65536"});
  else
    found.push_back({Severity::fine, fmt::format("a process may open {} files", files.rlim_cur), ""});
  const bool rdma = std::filesystem::exists("/sys/class/infiniband");
  if (locked.rlim_cur != RLIM_INFINITY && rdma)
    found.push_back(
        {Severity::warning, fmt::format("a process may lock {:.0f} MiB of memory", locked.rlim_cur / kMib),
         "RDMA needs its buffers locked: ulimit -l unlimited (limits.conf, or LimitMEMLOCK of the service)"});
  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) == 0 &&
      static_cast<double>(shm.f_blocks) * static_cast<double>(shm.f_frsize) < 256 * kMib)
    found.push_back({Severity::note,
                     fmt::format("/dev/shm holds {:.0f} MiB",
                                 static_cast<double>(shm.f_blocks) * static_cast<double>(shm.f_frsize) / kMib),
                     "Tutti does not use it, NCCL and MPI do (docker run --shm-size=1g)"});
}

void look_at_own_cores(std::vector<Finding>& found) {
  const CoreSet own = usable_cores();
  const uint32_t usable = count_cores({&own, 1});
  const auto all = static_cast<uint32_t>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
  if (usable < all)
    found.push_back({Severity::note, fmt::format("this process may use {} of {} cores", usable, all),
                     "start no more ranks than that here, or widen the affinity (taskset, numactl, the container)"});
}

// A child opens this process's memory, as ranks do with each other's.
void look_at_sharing(std::vector<Finding>& found) {
  const Fd memory(::memfd_create("tutti-doctor", MFD_CLOEXEC));
  const std::string path = fmt::format("/proc/{}/fd/{}", ::getpid(), memory.get());
  const pid_t child = memory ? ::fork() : -1;
  if (child == 0) ::_exit(::open(path.c_str(), O_RDWR | O_CLOEXEC) >= 0 ? 0 : errno);
  int status = -1;
  if (child > 0) ::waitpid(child, &status, 0);
  if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
    found.push_back({Severity::fine, "processes can share memory", ""});
  else
    found.push_back(
        {Severity::error,
         fmt::format("a process cannot open another's memory ({})",
                     child > 0 && WIFEXITED(status) ? std::strerror(WEXITSTATUS(status)) : "no child"),
         "ranks of this host use tcp instead: mount /proc without hidepid, allow memfd_create in the seccomp "
         "profile"});
}

void look_at_interface(const Config& config, std::vector<Finding>& found) {
  const Result<NetworkInterface> chosen = choose_interface(config);
  if (!chosen.ok()) {
    found.push_back({Severity::error, std::string(chosen.status().message()),
                     "set an interface up, or change TUTTI_SOCKET_IFNAME and TUTTI_SOCKET_FAMILY"});
    return;
  }
  const NetworkInterface& interface = chosen.value();
  if (interface.loopback)
    found.push_back({Severity::warning, "there is no network interface but loopback",
                     "ranks of this host alone can meet; for others, set an interface up"});
  const Result<Listener> listener = listen_tcp(interface.address, config.port_range);
  Fd fd(::socket(interface.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  std::string why = listener.ok() ? "" : std::string(listener.status().message());
  if (listener.ok() && fd) {
    const sockaddr_storage& at = listener.value().address;
    constexpr int kPatienceMs = 2000;
    pollfd writable{fd.get(), POLLOUT, 0};
    int error = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), bytes_of(at)) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      error = ETIMEDOUT;
      socklen_t length = sizeof error;
      if (::poll(&writable, 1, kPatienceMs) > 0) ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (error != 0) why = std::strerror(error);
  }
  const std::string name = fmt::format("{} ({})", interface.name, address_text(interface.address));
  if (why.empty())
    found.push_back({Severity::fine, fmt::format("{} takes connections", name), ""});
  else
    found.push_back({Severity::error, fmt::format("{} takes no connection: {}", name, why),
                     "a firewall may forbid it; TUTTI_PORT_RANGE and TUTTI_SOCKET_IFNAME choose others"});
}

std::string_view word_of(Severity severity) {
  constexpr std::string_view kWords[] = {"ok", "note", "warning", "error"};
  return kWords[static_cast<size_t>(severity)];
}

struct DoctorOptions {
  std::string root;
};

int diagnose(const DoctorOptions& options) {
  std::vector<Finding> found = examine_files(options.root);
  const auto add = [&](std::vector<Finding> more) { found.insert(found.end(), more.begin(), more.end()); };
  const Result<Machine> machine = options.root.empty() ? probe_machine() : probe_folder(options.root);
  if (machine.ok())
    add(examine_machine(machine.value()));
  else
    found.push_back({Severity::note, std::string(machine.status().message()), "tutti topo cannot show this machine"});
  if (options.root.empty()) add(examine_process());
  std::ranges::stable_sort(found, std::greater<>(), &Finding::severity);
  size_t warnings = 0, errors = 0;
  for (const Finding& each : found) {
    fmt::print("{:<8} {}\n", word_of(each.severity), each.what);
    if (!each.advice.empty()) fmt::print("{:<8}   {}\n", "", each.advice);
    warnings += each.severity == Severity::warning;
    errors += each.severity == Severity::error;
  }
  fmt::print("{} errors, {} warnings\n", errors, warnings);
  return errors > 0 ? 3 : warnings > 0 ? 1 : 0;
}

}  // namespace

std::vector<Finding> examine_machine(const Machine& machine) {
  std::vector<Finding> found;
  const Fabric fabric(machine);
  for (uint32_t g = 0; g < fabric.gpus(); ++g) {
    const int32_t nic = fabric.nic_of(g);
    if (nic == kNone || fabric.to_nic(g, static_cast<uint32_t>(nic)).path_class != PathClass::sys) continue;
    found.push_back({Severity::warning,
                     fmt::format("GPU {} has no network card on its side of the machine: {} is the nearest",
                                 machine.gpus[g].dev, machine.nics[static_cast<size_t>(nic)].name),
                     "what it sends crosses between processors; a card in a slot near it would be faster"});
  }
  if (!machine.gpus.empty())
    found.push_back({Severity::note, fmt::format("{} GPUs are here", machine.gpus.size()),
                     "this build has no plug-in for GPUs; ranks use memory of the host"});
  return found;
}

std::vector<Finding> examine_process() {
  std::vector<Finding> found;
  const Result<Config> config = config_from_environment();
  if (!config.ok())
    found.push_back({Severity::error, std::string(config.status().message()), "no rank starts with this environment"});
  look_at_limits(found);
  look_at_own_cores(found);
  look_at_sharing(found);
  look_at_interface(config.ok() ? config.value() : Config{}, found);
  return found;
}

Action add_doctor_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "doctor", "Look for what usually goes wrong on a machine; exit status 0: fine, 1: warnings, 3: errors");
  auto options = std::make_shared<DoctorOptions>();
  command->add_option("--root", options->root, "look at a folder with copies of /sys and /proc instead of this machine")
      ->option_text("FOLDER");
  return [options] { return diagnose(*options); };
}

}  // namespace tutti
