#include "topo/machine.h"

#include <algorithm>
#include <charconv>
#include <numeric>

namespace tutti {
namespace {

constexpr uint32_t kNvidia = 0x10de, kAmd = 0x1002, kIntel = 0x8086;

// Hexadecimal digits up to `stop`, which is taken as well; false without a digit or when the value is above `most`.
bool take_hex(std::string_view& text, char stop, uint32_t most, uint32_t& value) {
  const size_t end = std::min(text.find(stop), text.size());
  const auto [last, error] = std::from_chars(text.data(), text.data() + end, value, 16);
  if (error != std::errc() || last != text.data() + end || value > most) return false;
  text.remove_prefix(std::min(end + 1, text.size()));
  return true;
}

Status out_of_range(std::string_view what, size_t index, std::string_view field, int64_t value, size_t end) {
  return invalid_usage("{} {} names {} {}, but there are {}", what, index, field, value, end);
}

Status check_counts(const Machine& machine) {
  const struct {
    std::string_view what;
    size_t count, most;
  } counts[] = {{"NUMA nodes", machine.numas.size(), kMostNumas},
                {"PCI devices", machine.pci.size(), kMostPci},
                {"GPUs", machine.gpus.size(), kMostGpus},
                {"network cards", machine.nics.size(), kMostNics},
                {"NVSwitches", machine.nvswitches.size(), kMostPci},
                {"GPU links", machine.links.size(), kMostGpuLinks}};
  for (const auto& [what, count, most] : counts)
    if (count > most) return invalid_usage("the machine has {} {}; at most {} are allowed", count, what, most);
  if (machine.numas.empty()) return invalid_usage("the machine has no NUMA node; it needs one at least");
  return {};
}

}  // namespace

std::string to_text(const BusId& bus) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", bus.domain, bus.bus, bus.device, bus.function);
}

bool parse_bus_id(std::string_view text, BusId& bus) {
  const auto colons = std::count(text.begin(), text.end(), ':');
  uint32_t domain = 0, number = 0, device = 0, function = 0;
  if (colons < 1 || colons > 2) return false;
  if (colons == 2 && !take_hex(text, ':', 0xfffffff, domain)) return false;
  if (!take_hex(text, ':', 0xff, number)) return false;
  const bool has_function = text.find('.') != std::string_view::npos;
  if (!take_hex(text, '.', 0xff, device)) return false;
  if (has_function && (!take_hex(text, '.', 0xf, function) || !text.empty())) return false;
  bus = {domain, static_cast<uint8_t>(number), static_cast<uint8_t>(device), static_cast<uint8_t>(function)};
  return true;
}

std::string_view name_of(PciKind kind) {
  switch (kind) {
    case PciKind::bridge:
      return "bridge";
    case PciKind::gpu:
      return "gpu";
    case PciKind::nic:
      return "nic";
    case PciKind::nvswitch:
      return "nvswitch";
    default:
      return "other";
  }
}

PciKind kind_of_class(uint32_t class_code, uint32_t vendor) {
  const uint32_t major = class_code >> 16, minor = class_code >> 8;
  if (minor == 0x0604) return PciKind::bridge;
  if (major == 0x02 || minor == 0x0c06) return PciKind::nic;  // 0c06: InfiniBand of old
  if (minor == 0x0680 && (vendor == kNvidia || vendor == 0)) return PciKind::nvswitch;
  if (minor == 0x0302 || minor == 0x1200) return PciKind::gpu;
  // Displays: boards for consoles (Matrox, ASPEED) and processors' own are no GPUs to us.
  const bool makes_gpus = vendor == kNvidia || vendor == kAmd || vendor == 0 || (vendor == kIntel && minor == 0x0380);
  if ((minor == 0x0300 || minor == 0x0380) && makes_gpus) return PciKind::gpu;
  return PciKind::other;
}

Status check(const Machine& machine) {
  TUTTI_TRY(check_counts(machine));
  const size_t numas = machine.numas.size(), devices = machine.pci.size(), gpus = machine.gpus.size();
  for (size_t i = 0; i < devices; ++i) {
    const PciDevice& device = machine.pci[i];
    if (device.parent != kNone && (device.parent < 0 || static_cast<size_t>(device.parent) >= i))
      return out_of_range("PCI device", i, "the parent", device.parent, i);
    if (device.parent != kNone && machine.pci[static_cast<size_t>(device.parent)].kind != PciKind::bridge)
      return invalid_usage("PCI device {} is below {}, which is no bridge", to_text(device.bus),
                           to_text(machine.pci[static_cast<size_t>(device.parent)].bus));
    if (device.numa >= numas) return out_of_range("PCI device", i, "NUMA node", device.numa, numas);
  }
  for (size_t i = 0; i < gpus; ++i)
    if (machine.gpus[i].pci >= devices) return out_of_range("GPU", i, "PCI device", machine.gpus[i].pci, devices);
  for (size_t i = 0; i < machine.nics.size(); ++i) {
    const Nic& nic = machine.nics[i];
    if (nic.numa >= numas) return out_of_range("network card", i, "NUMA node", nic.numa, numas);
    if (nic.pci != kNone && (nic.pci < 0 || static_cast<size_t>(nic.pci) >= devices))
      return out_of_range("network card", i, "PCI device", nic.pci, devices);
  }
  for (size_t i = 0; i < machine.links.size(); ++i) {
    const GpuLink& link = machine.links[i];
    const size_t targets = link.target_kind == GpuLinkTarget::gpu        ? gpus
                           : link.target_kind == GpuLinkTarget::nvswitch ? machine.nvswitches.size()
                                                                         : numas;
    if (link.gpu >= gpus) return out_of_range("GPU link", i, "GPU", link.gpu, gpus);
    if (link.target >= targets) return out_of_range("GPU link", i, "the target", link.target, targets);
    if (!(link.gb_s > 0) || link.gb_s > 1e6)
      return invalid_usage("GPU link {} has {} GB/s; it may be 0 to 1e6", i, link.gb_s);
  }
  return {};
}

void sort_devices(Machine& machine) {
  std::vector<uint32_t> order(machine.gpus.size()), place(machine.gpus.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, [&](uint32_t g) { return machine.gpus[g].dev; });
  std::vector<Gpu> gpus;
  for (uint32_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    gpus.push_back(std::move(machine.gpus[order[i]]));
  }
  machine.gpus = std::move(gpus);
  for (GpuLink& link : machine.links) {
    link.gpu = place[link.gpu];
    if (link.target_kind == GpuLinkTarget::gpu) link.target = place[link.target];
  }
  std::ranges::stable_sort(machine.nics, {}, &Nic::dev);
}

Machine structure_of(Machine machine) {
  for (Nic& nic : machine.nics) {
    nic.guid = 0;
    nic.mtu = 0;
    nic.addresses.clear();
    nic.interface.clear();
  }
  return machine;
}

Machine with_gpus(Machine machine, std::span<const uint32_t> gpus) {
  std::vector<int32_t> place(machine.gpus.size(), kNone);
  std::vector<Gpu> kept;
  for (const uint32_t gpu : gpus) {
    place[gpu] = static_cast<int32_t>(kept.size());
    kept.push_back(std::move(machine.gpus[gpu]));
  }
  machine.gpus = std::move(kept);
  const auto to_gpu = [](const GpuLink& link) { return link.target_kind == GpuLinkTarget::gpu; };
  std::erase_if(machine.links, [&](const GpuLink& link) {
    return place[link.gpu] == kNone || (to_gpu(link) && place[link.target] == kNone);
  });
  for (GpuLink& link : machine.links) {
    link.gpu = static_cast<uint32_t>(place[link.gpu]);
    if (to_gpu(link)) link.target = static_cast<uint32_t>(place[link.target]);
  }
  return machine;
}

}  // namespace tutti
