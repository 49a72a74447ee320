// hwloc's XML, versions 2 and 3. Read here and not through hwloc, because the hwloc of many systems (2.9) refuses
// version 3, and because it is not made to read what strangers wrote. A probe of this machine comes this way as well:
// hwloc writes what it found as XML.
#include <charconv>
#include <map>

#include "topo/speeds.h"
#include "topo/xml_readers.h"

namespace tutti {
namespace {

using pugi::xml_node;

struct Place {
  uint32_t numa_os_index = 0;
  uint32_t package = 0;
  bool has_package = false;
  xml_node package_node;
};

// The lowest bit of hwloc's mask, "0x00000303,0x03030000,,0x03030303"; -1: empty.
int32_t lowest_bit(std::string_view mask) {
  int32_t first = 0;
  while (!mask.empty()) {
    const size_t comma = mask.rfind(',');
    std::string_view word = comma == std::string_view::npos ? mask : mask.substr(comma + 1);
    mask = comma == std::string_view::npos ? std::string_view() : mask.substr(0, comma);
    if (word.starts_with("0x")) word.remove_prefix(2);
    uint32_t bits = 0;
    std::from_chars(word.data(), word.data() + word.size(), bits, 16);
    if (bits != 0) return first + __builtin_ctz(bits);
    first += 32;
  }
  return -1;
}

// As NCCL writes it: without 0x.
std::string plain_mask(std::string_view mask) {
  std::string plain;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask.substr(i).starts_with("0x"))
      ++i;
    else
      plain += mask[i];
  }
  return plain;
}

std::string_view info(xml_node node, std::string_view name) {
  for (const xml_node child : node.children("info"))
    if (name == child.attribute("name").value())
      return std::string_view(child.attribute("value").value()).substr(0, XmlFile::kMostTextBytes);
  return {};
}

uint32_t info_number(xml_node node, std::string_view name) {
  const std::string_view text = info(node, name);
  uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The digits at the end of "cuda12"; -1: none.
int32_t trailing_number(std::string_view name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  int32_t value = -1;
  std::from_chars(name.data() + std::min(digits, name.size()), name.data() + name.size(), value);
  return value;
}

class HwlocReader {
 public:
  explicit HwlocReader(XmlFile& file) : file_(file) {}

  Result<Machine> read() {
    const xml_node root = file_.root();
    version3_ = std::string_view(root.attribute("version").value()).starts_with("3");
    const std::string_view version = root.attribute("version").value();
    if (!version.starts_with("2") && !version3_)
      file_.refuse(root, fmt::format("<topology> has version=\"{:.20}\"; it may be 2.x or 3.x", version));
    const xml_node machine = root.child("object");
    if (!machine) file_.refuse(root, "<topology> has no <object>");
    const std::string_view in_machine = info(machine, "Architecture");
    arch_ = in_machine.empty() ? info(root, "Architecture") : in_machine;
    if (arch_ == "x86_64" || arch_.empty()) arch_ = "x86_64";
    find_numas(machine, {});
    if (machine_.numas.empty()) machine_.numas.push_back({0, 0, arch_, "", 0, 0, ""});
    walk(machine, {}, 0, kNone);
    if (!file_.status().ok()) return file_.status();
    for (const xml_node distances : root.children())
      if (std::string_view(distances.name()).starts_with("distances2")) read_distances(distances);
    if (!file_.status().ok()) return file_.status();
    sort_devices(machine_);
    for (uint32_t i = 0; i < machine_.gpus.size(); ++i) machine_.gpus[i].dev = i;
    if (Status status = check(machine_); !status.ok()) file_.refuse(root, status.message());
    if (!file_.status().ok()) return file_.status();
    return std::move(machine_);
  }

 private:
  static std::string_view type_of(xml_node object) { return object.attribute("type").value(); }

  Place place_in(xml_node object, Place place) {
    if (type_of(object) == "Package") {
      place.package = static_cast<uint32_t>(file_.number(object, "os_index", UINT32_MAX));
      place.has_package = true;
      place.package_node = object;
    }
    const int32_t node = lowest_bit(object.attribute("nodeset").value());
    if (node >= 0) place.numa_os_index = static_cast<uint32_t>(node);
    return place;
  }

  void find_numas(xml_node object, const Place& outer) {
    const Place place = place_in(object, outer);
    // Memory of a GPU is a node without cores.
    if (type_of(object) == "NUMANode" && lowest_bit(object.attribute("cpuset").value()) >= 0) {
      NumaNode numa;
      numa.os_index = static_cast<uint32_t>(file_.number(object, "os_index", UINT32_MAX));
      numa.package = place.has_package ? place.package : numa.os_index;
      numa.arch = arch_;
      numa.vendor = info(place.package_node, "CPUVendor");
      numa.family = info_number(place.package_node, "CPUFamilyNumber");
      numa.model = info_number(place.package_node, "CPUModelNumber");
      numa.cores = plain_mask(file_.text(object, "cpuset"));
      if (numa_of_os_index_.emplace(numa.os_index, static_cast<uint32_t>(machine_.numas.size())).second)
        machine_.numas.push_back(std::move(numa));
    }
    for (const xml_node child : object.children("object")) find_numas(child, place);
  }

  uint32_t numa_of(const Place& place) const {
    const auto found = numa_of_os_index_.find(place.numa_os_index);
    return found == numa_of_os_index_.end() ? 0 : found->second;
  }

  // `bridges`: how many stand above, the host bridge not counted; `parent`: the switch that stands above.
  void walk(xml_node object, const Place& outer, uint32_t bridges, int32_t parent) {
    const Place place = place_in(object, outer);
    const std::string_view type = type_of(object);
    const auto gp_index = static_cast<uint32_t>(file_.number(object, "gp_index", UINT32_MAX));
    if (type == "Package") {
      for (uint32_t n = 0; n < machine_.numas.size(); ++n)
        if (machine_.numas[n].package == place.package) package_numa_.emplace(gp_index, n);
    }
    if (machine_.pci.size() > kMostPci) return file_.refuse(object, fmt::format("more than {} PCI devices", kMostPci));
    const bool has_bus = object.attribute("pci_busid");
    if (type == "Bridge" && has_bus) {
      // Root port, then pairs of a switch's upstream and downstream port. The upstream port stands for the switch.
      if (bridges % 2 == 1) parent = add_pci(object, place, parent, PciKind::bridge);
      ++bridges;
    } else if (type == "PCIDev" && has_bus) {
      return add_device(object, place, parent, gp_index);
    } else if (type == "OSDev" && network(object)) {
      add_nic(object, numa_of(place), kNone, object);  // of no PCI device: virtual machines have such
    }
    for (const xml_node child : object.children("object")) walk(child, place, bridges, parent);
  }

  int32_t add_pci(xml_node object, const Place& place, int32_t parent, PciKind kind) {
    PciDevice device;
    if (!parse_bus_id(object.attribute("pci_busid").value(), device.bus))
      file_.refuse(object,
                   fmt::format("pci_busid=\"{:.40}\" is no PCI address", object.attribute("pci_busid").value()));
    device.kind = kind;
    device.parent = parent;
    device.numa = numa_of(place);
    // "0302 [10de:1db8] [10de:131d] a1 00"
    unsigned code = 0, vendor = 0, id = 0, subsystem_vendor = 0, subsystem = 0;
    std::sscanf(object.attribute("pci_type").value(), "%4x [%4x:%4x] [%4x:%4x]", &code, &vendor, &id, &subsystem_vendor,
                &subsystem);
    device.class_code = code << 8;
    device.vendor = vendor;
    device.device = id;
    device.subsystem_vendor = subsystem_vendor;
    device.subsystem_device = subsystem;
    pcie_link_of(file_.decimal(object, "pci_link_speed", 1e6), device.lane_gt_s, device.lanes);
    machine_.pci.push_back(device);
    return static_cast<int32_t>(machine_.pci.size()) - 1;
  }

  void add_device(xml_node object, const Place& place, int32_t parent, uint32_t gp_index) {
    const int32_t index = add_pci(object, place, parent, PciKind::other);
    PciDevice& device = machine_.pci[static_cast<size_t>(index)];
    device.kind = kind_of_class(device.class_code, device.vendor);
    if (std::string_view(object.attribute("subtype").value()) == "NVSwitch") device.kind = PciKind::nvswitch;
    xml_node fabric, interface;
    for (const xml_node child : object.children("object")) {
      if (type_of(child) != "OSDev") continue;
      pci_of_osdev_[static_cast<uint32_t>(file_.number(child, "gp_index", UINT32_MAX))] = static_cast<uint32_t>(index);
      if (openfabrics(child))
        fabric = child;
      else if (network(child))
        interface = child;
      if (device.kind == PciKind::other && !info(child, "GPUModel").empty()) device.kind = PciKind::gpu;
    }
    if (device.kind == PciKind::nvswitch) {
      nvswitch_of_object_[gp_index] = static_cast<uint32_t>(machine_.nvswitches.size());
      machine_.nvswitches.push_back({device.bus});
    } else if (device.kind == PciKind::gpu) {
      add_gpu(object, static_cast<uint32_t>(index));
    } else if (fabric || interface) {
      device.kind = PciKind::nic;
      add_nic(fabric ? fabric : interface, device.numa, index, interface);
    }
  }

  void add_gpu(xml_node object, uint32_t pci) {
    Gpu gpu;
    gpu.pci = pci;
    int32_t number = -1;
    for (const xml_node child : object.children("object")) {
      if (gpu.model.empty()) gpu.model = info(child, "GPUModel");
      const std::string_view name = child.attribute("name").value();
      if (number < 0 && (name.starts_with("cuda") || name.starts_with("nvml") || name.starts_with("rsmi")))
        number = trailing_number(name);
    }
    gpu.sm = sm_of_model(gpu.model);
    // Those that a driver has numbered stand in its order, before the others.
    gpu.dev = number >= 0 ? static_cast<uint32_t>(number) : 0x10000 + static_cast<uint32_t>(machine_.gpus.size());
    gpu_of_pci_[pci] = static_cast<uint32_t>(machine_.gpus.size());
    machine_.gpus.push_back(std::move(gpu));
  }

  // Version 2 counts the types, version 3 gives each a bit.
  bool network(xml_node osdev) { return file_.number(osdev, "osdev_type", 1024) == (version3_ ? 16u : 2u); }
  bool openfabrics(xml_node osdev) { return file_.number(osdev, "osdev_type", 1024) == (version3_ ? 32u : 3u); }

  void add_nic(xml_node osdev, uint32_t numa, int32_t pci, xml_node interface) {
    Nic nic;
    nic.pci = pci;
    nic.numa = numa;
    nic.name = file_.text(osdev, "name");
    if (interface && interface != osdev) nic.interface = file_.text(interface, "name");
    nic.dev = static_cast<uint32_t>(machine_.nics.size());
    nic.port = openfabrics(osdev) ? 1 : 0;
    const std::string_view state = info(osdev, "Port1State");
    nic.up = state.empty() || state == "4";  // IBV_PORT_ACTIVE
    machine_.nics.push_back(std::move(nic));
  }

  // ---- NVLinkBandwidth and XGMIBandwidth: a matrix in MB/s over GPUs, NVSwitches and processors

  static void append_words(xml_node node, std::vector<std::string_view>& words) {
    std::string_view text = node.child_value();
    while (!text.empty()) {
      const size_t end = std::min(text.find_first_of(" \n\t"), text.size());
      if (end > 0) words.push_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  void read_distances(xml_node distances) {
    const std::string_view name = distances.attribute("name").value();
    if (name != "NVLinkBandwidth" && name != "XGMIBandwidth") return;
    std::vector<std::string_view> objects, values;
    for (const xml_node child : distances.children("indexes")) append_words(child, objects);
    for (const xml_node child : distances.children("u64values")) append_words(child, values);
    if (objects.empty() || objects.size() > 1024 || values.size() != objects.size() * objects.size())
      return file_.refuse(distances, fmt::format("{} has {} objects and {} values; it is a matrix of at most 1024",
                                                 name, objects.size(), values.size()));
    for (size_t i = 0; i < objects.size(); ++i)
      for (size_t j = 0; j < objects.size(); ++j) {
        double mb_s = 0;
        const std::string_view word = values[i * objects.size() + j];
        std::from_chars(word.data(), word.data() + word.size(), mb_s);
        if (i != j && mb_s > 0 && mb_s < 1e9) add_link(objects[i], objects[j], mb_s, name == "XGMIBandwidth");
      }
  }

  // "OSDev:802", or 802 alone.
  static uint32_t number_of(std::string_view object) {
    const size_t colon = object.find(':');
    if (colon != std::string_view::npos) object.remove_prefix(colon + 1);
    uint32_t number = 0;
    std::from_chars(object.data(), object.data() + object.size(), number);
    return number;
  }

  bool find_gpu(std::string_view object, uint32_t& gpu) const {
    const auto device = pci_of_osdev_.find(number_of(object));
    if (device == pci_of_osdev_.end()) return false;
    const auto found = gpu_of_pci_.find(device->second);
    if (found == gpu_of_pci_.end()) return false;
    gpu = found->second;
    return true;
  }

  void add_link(std::string_view from, std::string_view to, double mb_s, bool xgmi) {
    GpuLink link;
    if (!find_gpu(from, link.gpu)) return;
    if (find_gpu(to, link.target)) {
      link.target_kind = GpuLinkTarget::gpu;
    } else if (const auto nvswitch = nvswitch_of_object_.find(number_of(to)); nvswitch != nvswitch_of_object_.end()) {
      link.target_kind = GpuLinkTarget::nvswitch;
      link.target = nvswitch->second;
    } else if (const auto package = package_numa_.find(number_of(to)); package != package_numa_.end()) {
      link.target_kind = GpuLinkTarget::numa;
      link.target = package->second;
    } else {
      return;
    }
    const Gpu& gpu = machine_.gpus[link.gpu];
    const double wire_mb_s = xgmi ? 50000 : nvlink_wire_mb_s(gpu.sm);
    const double each_gb_s = xgmi ? xgmi_gb_s(gpu.model) : nvlink_gb_s(gpu.sm);
    link.xgmi = xgmi;
    link.count = std::max(1u, static_cast<uint32_t>(mb_s / wire_mb_s + 0.5));
    link.gb_s = link.count * each_gb_s;
    machine_.links.push_back(link);
  }

  XmlFile& file_;
  Machine machine_;
  std::string arch_;
  bool version3_ = false;
  std::map<uint32_t, uint32_t> numa_of_os_index_;
  std::map<uint32_t, uint32_t> package_numa_, pci_of_osdev_, nvswitch_of_object_;  // by gp_index
  std::map<uint32_t, uint32_t> gpu_of_pci_;
};

}  // namespace

Result<Machine> read_hwloc(XmlFile& file) { return HwlocReader(file).read(); }

}  // namespace tutti
