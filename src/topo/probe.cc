#include "topo/probe.h"

#include <dirent.h>
#include <hwloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "base/network_interface.h"
#include "topo/xml_readers.h"

namespace tutti {
namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Destroy>;

// hwloc loads its plug-ins with the first topology and unloads them with the last, and libpciaccess, which one of them
// brings, does not clean up when it is unloaded. A topology that is never loaded keeps them.
void keep_plugins() {
  [[gnu::used]] static hwloc_topology_t const kept = [] {  // else the compiler forgets where it is, and it is a leak
    hwloc_topology_t topology = nullptr;
    return hwloc_topology_init(&topology) == 0 ? topology : nullptr;
  }();
}

Result<Machine> load(const std::string& name) {
  keep_plugins();
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return fail(tuttiSystemError, "hwloc_topology_init failed");
  const Topology topology(raw);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(raw) != 0) return system_error("hwloc_topology_load", errno).within(name);
  char* xml = nullptr;
  int bytes = 0;
  if (hwloc_topology_export_xmlbuffer(raw, &xml, &bytes, 0) != 0)
    return system_error("hwloc_topology_export_xmlbuffer", errno).within(name);
  std::string text(xml);
  hwloc_free_xmlbuffer(raw, xml);
  TUTTI_TRY_ASSIGN(const std::unique_ptr<XmlFile> file, XmlFile::parse(name, std::move(text)));
  return read_hwloc(*file);
}

// The first number of a file of /sys; 0 where there is none. Interfaces that are down say -1.
uint32_t number_in(const std::string& path) {
  double value = 0;
  std::ifstream file(path);
  return file >> value && value > 0 && value < 4e9 ? static_cast<uint32_t>(value) : 0;
}

std::string interface_of(const Nic& nic) { return nic.interface.empty() ? nic.name : nic.interface; }

void add_state(Nic& nic, const std::vector<NetworkInterface>& interfaces) {
  const std::string name = interface_of(nic), folder = "/sys/class/net/" + name;
  nic.mbit_s = number_in(folder + "/speed");
  nic.mtu = number_in(folder + "/mtu");
  if (nic.port > 0)  // "100 Gb/sec (4X EDR)"
    nic.mbit_s = std::max(nic.mbit_s, 1000 * number_in("/sys/class/infiniband/" + nic.name + "/ports/1/rate"));
  for (const NetworkInterface& interface : interfaces)
    if (interface.name == name) nic.addresses.push_back(address_text(interface.address));
  std::string state;
  if (std::ifstream(folder + "/operstate") >> state) nic.up = nic.up && state != "down";
}

}  // namespace

Result<Machine> probe_machine() {
  TUTTI_TRY_ASSIGN(Machine machine, load("this machine"));
  const auto listed = list_interfaces();
  const std::vector<NetworkInterface> interfaces = listed.ok() ? listed.value() : std::vector<NetworkInterface>();
  if (machine.nics.empty()) {
    for (const NetworkInterface& interface : interfaces) {
      if (interface.loopback) continue;
      if (std::ranges::find(machine.nics, interface.name, &Nic::name) != machine.nics.end()) continue;
      Nic nic;
      nic.name = interface.name;
      nic.dev = static_cast<uint32_t>(machine.nics.size());
      machine.nics.push_back(std::move(nic));
    }
  }
  for (Nic& nic : machine.nics) add_state(nic, interfaces);
  return machine;
}

Result<Machine> probe_folder(const std::string& folder) {
  std::string root = folder;
  struct stat status {};
  if (::stat((root + "/sys").c_str(), &status) != 0) {
    std::vector<std::string> names;
    if (DIR* open = ::opendir(root.c_str())) {
      while (const dirent* entry = ::readdir(open))
        if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
      ::closedir(open);
    }
    if (names.size() == 1) root += "/" + names[0];
    if (::stat((root + "/sys").c_str(), &status) != 0)
      return invalid_usage("{} is no dump of a machine: it has no folder sys. hwloc-gather-topology makes such dumps",
                           folder);
  }
  ::setenv("HWLOC_FSROOT", root.c_str(), 1);
  Result<Machine> machine = load(root);
  ::unsetenv("HWLOC_FSROOT");
  return machine;
}

}  // namespace tutti
