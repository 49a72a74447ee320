// NCCL's topology XML: <system> holds a <cpu> for each NUMA node, that the tree of <pci>, and those <gpu> with
// <nvlink>, <xgmi> or <c2c>, and <nic> with <net>. Elements that are not known are left out, as newer versions add
// some.
#include <map>

#include "topo/speeds.h"
#include "topo/xml_readers.h"

namespace tutti {
namespace {

using pugi::xml_node;

constexpr uint64_t kMostNumber = UINT32_MAX;

class NcclReader {
 public:
  explicit NcclReader(XmlFile& file) : file_(file) {}

  Result<Machine> read() {
    const xml_node system = file_.root();
    const uint64_t version = file_.number(system, "version", kMostNumber);
    if (version != 1 && version != 2)
      file_.refuse(system, fmt::format("<system> has version {}; it may be 1 (NCCL) or 2 (RCCL)", version));
    for (const xml_node cpu : system.children("cpu")) read_cpu(cpu);
    if (machine_.numas.empty()) file_.refuse(system, "<system> has no <cpu>; it needs one at least");
    for (const auto& [gpu, node] : link_elements_) read_link(gpu, node);
    if (!file_.status().ok()) return file_.status();
    sort_devices(machine_);
    if (Status status = check(machine_); !status.ok()) file_.refuse(system, status.message());
    if (!file_.status().ok()) return file_.status();
    return std::move(machine_);
  }

 private:
  uint32_t number(xml_node node, const char* name, uint64_t otherwise = 0) {
    return static_cast<uint32_t>(file_.number(node, name, kMostNumber, otherwise));
  }

  void read_cpu(xml_node cpu) {
    NumaNode numa;
    numa.os_index = number(cpu, "numaid", machine_.numas.size());
    // The file does not tell which nodes share a processor; apart, the link between them is the dearest it can be.
    numa.package = numa.os_index;
    numa.arch = file_.text(cpu, "arch");
    numa.vendor = file_.text(cpu, "vendor");
    numa.family = number(cpu, "familyid");
    numa.model = number(cpu, "modelid");
    numa.cores = file_.text(cpu, "affinity");
    machine_.numas.push_back(std::move(numa));
    read_children(cpu, kNone);
  }

  // Depth is bounded by XmlFile.
  void read_children(xml_node parent, int32_t pci) {
    for (const xml_node child : parent.children()) {
      const std::string_view name = child.name();
      if (name == "pci") read_pci(child, pci);
      if (name == "nic")
        for (const xml_node net : child.children("net")) read_net(net, pci);
      if (name == "gpu") read_gpu(child, pci);
    }
  }

  void read_pci(xml_node node, int32_t parent) {
    PciDevice device;
    if (!parse_bus_id(node.attribute("busid").value(), device.bus))
      return file_.refuse(node, fmt::format("<pci> has busid=\"{:.40}\"; it is like \"0000:1b:00.0\"",
                                            node.attribute("busid").value()));
    const auto index = static_cast<uint32_t>(machine_.pci.size());
    if (!by_bus_.emplace(device.bus, index).second)
      return file_.refuse(node, fmt::format("<pci> {} is there twice", to_text(device.bus)));
    device.parent = parent;
    device.numa = static_cast<uint32_t>(machine_.numas.size()) - 1;
    device.class_code = static_cast<uint32_t>(file_.number(node, "class", 0xffffff));
    device.vendor = number(node, "vendor");
    device.device = number(node, "device");
    device.subsystem_vendor = number(node, "subsystem_vendor");
    device.subsystem_device = number(node, "subsystem_device");
    device.lane_gt_s = file_.decimal(node, "link_speed", 1000);
    device.lanes = static_cast<uint32_t>(file_.number(node, "link_width", 64));
    device.kind = kind_of_class(device.class_code, device.vendor);
    if (node.child("gpu")) device.kind = PciKind::gpu;
    if (node.child("nic")) device.kind = PciKind::nic;
    if (node.child("pci")) device.kind = PciKind::bridge;
    machine_.pci.push_back(device);
    if (machine_.pci.size() > kMostPci) return file_.refuse(node, fmt::format("more than {} <pci>", kMostPci));
    read_children(node, static_cast<int32_t>(index));
    add_implied(device, index, node);
  }

  // Files of cloud vendors hold the PCI skeleton; NCCL adds GPUs and cards on the live machine. The class says which.
  void add_implied(const PciDevice& device, uint32_t index, xml_node node) {
    if (device.kind == PciKind::gpu && !node.child("gpu")) {
      Gpu gpu;
      gpu.pci = index;
      gpu.dev = static_cast<uint32_t>(machine_.gpus.size());
      machine_.gpus.push_back(std::move(gpu));
    } else if (device.kind == PciKind::nic && !node.child("nic")) {
      Nic nic;
      nic.pci = static_cast<int32_t>(index);
      nic.numa = device.numa;
      nic.name = to_text(device.bus);
      nic.dev = static_cast<uint32_t>(machine_.nics.size());
      machine_.nics.push_back(std::move(nic));
    }
  }

  void read_gpu(xml_node node, int32_t pci) {
    if (pci == kNone) return file_.refuse(node, "<gpu> is not in a <pci>");
    Gpu gpu;
    gpu.pci = static_cast<uint32_t>(pci);
    gpu.dev = number(node, "dev", machine_.gpus.size());
    gpu.sm = number(node, "sm");
    gpu.arch = file_.text(node, "gcn");
    gpu.gdr = number(node, "gdr") != 0;
    for (const Gpu& other : machine_.gpus)
      if (other.dev == gpu.dev) return file_.refuse(node, fmt::format("<gpu> dev {} is there twice", gpu.dev));
    const auto index = static_cast<uint32_t>(machine_.gpus.size());
    machine_.gpus.push_back(std::move(gpu));
    if (machine_.gpus.size() > kMostGpus) return file_.refuse(node, fmt::format("more than {} <gpu>", kMostGpus));
    for (const xml_node link : node.children()) link_elements_.emplace_back(index, link);
  }

  void read_net(xml_node node, int32_t pci) {
    Nic nic;
    nic.pci = pci;
    nic.numa = static_cast<uint32_t>(machine_.numas.size()) - 1;
    nic.name = file_.text(node, "name");
    nic.dev = number(node, "dev", machine_.nics.size());
    nic.mbit_s = number(node, "speed");
    nic.port = number(node, "port");
    nic.guid = file_.number(node, "guid", UINT64_MAX);
    nic.gdr = number(node, "gdr") != 0;
    machine_.nics.push_back(std::move(nic));
    if (machine_.nics.size() > kMostNics) file_.refuse(node, fmt::format("more than {} <net>", kMostNics));
  }

  void read_link(uint32_t gpu, xml_node node) {
    const std::string_view name = node.name();
    if (name == "c2c") return read_c2c(gpu, node);
    if (name != "nvlink" && name != "xgmi") return;
    GpuLink link;
    link.gpu = gpu;
    link.xgmi = name == "xgmi";
    link.count = static_cast<uint32_t>(file_.number(node, "count", 1024, 1));
    const Gpu& from = machine_.gpus[gpu];
    link.gb_s = link.count * (link.xgmi ? xgmi_gb_s(from.arch) : nvlink_gb_s(from.sm));
    BusId target;
    if (!parse_bus_id(node.attribute("target").value(), target))
      return file_.refuse(node, fmt::format("<{}> has target=\"{:.40}\"; it is like \"0000:1b:00.0\"", name,
                                            node.attribute("target").value()));
    if (link.count > 0 && find_target(link, target, static_cast<uint32_t>(file_.number(node, "tclass", 0xffffff))))
      machine_.links.push_back(link);
  }

  // False where the link leads to no device of the file (a container that sees a part of the GPUs), or back to its own
  // GPU, as hypervisors that hide the NVSwitches write it.
  bool find_target(GpuLink& link, const BusId& bus, uint32_t target_class) {
    constexpr uint32_t kNvSwitch = 0x068000, kPowerBridge = 0x068001;
    if (target_class == kPowerBridge) {
      link.target_kind = GpuLinkTarget::numa;
      link.target = machine_.pci[machine_.gpus[link.gpu].pci].numa;
      return true;
    }
    if (target_class == kNvSwitch) {
      link.target_kind = GpuLinkTarget::nvswitch;
      const auto [place, added] = nvswitches_.emplace(bus, static_cast<uint32_t>(machine_.nvswitches.size()));
      if (added) machine_.nvswitches.push_back({bus});
      link.target = place->second;
      return true;
    }
    for (uint32_t g = 0; g < machine_.gpus.size(); ++g) {
      if (g == link.gpu || machine_.pci[machine_.gpus[g].pci].bus != bus) continue;
      link.target = g;
      return true;
    }
    return false;
  }

  void read_c2c(uint32_t gpu, xml_node node) {
    GpuLink link;
    link.gpu = gpu;
    link.c2c = true;
    link.target_kind = GpuLinkTarget::numa;
    link.target = machine_.pci[machine_.gpus[gpu].pci].numa;
    link.count = static_cast<uint32_t>(file_.number(node, "count", 1024, 1));
    link.gb_s = link.count * file_.decimal(node, "bw", 1e6) / 1000;  // bw: MB/s
    if (link.gb_s > 0) machine_.links.push_back(link);
  }

  XmlFile& file_;
  Machine machine_;
  std::map<BusId, uint32_t> by_bus_, nvswitches_;
  std::vector<std::pair<uint32_t, xml_node>> link_elements_;  // by GPU; their targets may come later in the file
};

}  // namespace

Result<Machine> read_nccl_system(XmlFile& file) { return NcclReader(file).read(); }

Result<std::vector<ChannelGraph>> read_nccl_graphs(XmlFile& file) {
  constexpr size_t kMostGraphs = 64, kMostChannels = 1024, kMostSteps = 65536;
  std::vector<ChannelGraph> graphs;
  size_t channels = 0, steps = 0;
  for (const xml_node node : file.root().children("graph")) {
    ChannelGraph graph;
    graph.id = static_cast<uint32_t>(file.number(node, "id", kMostGraphs));
    graph.pattern = static_cast<uint32_t>(file.number(node, "pattern", 64));
    graph.gb_s_intra = file.decimal(node, "speedintra", 1e6);
    graph.gb_s_inter = file.decimal(node, "speedinter", 1e6);
    graph.type_intra = file.text(node, "typeintra");
    graph.type_inter = file.text(node, "typeinter");
    for (const xml_node channel : node.children("channel")) {
      if (++channels > kMostChannels) file.refuse(channel, fmt::format("more than {} channels", kMostChannels));
      graph.channels.emplace_back();
      for (const xml_node step : channel.children()) {
        const bool net = std::string_view(step.name()) == "net";
        if (!net && std::string_view(step.name()) != "gpu")
          file.refuse(step, fmt::format("<channel> holds <{:.40}>; it may hold <gpu> and <net>", step.name()));
        if (++steps > kMostSteps) file.refuse(step, fmt::format("more than {} steps", kMostSteps));
        if (!step.attribute("dev")) file.refuse(step, fmt::format("<{}> has no dev", step.name()));
        graph.channels.back().push_back({net ? ChannelGraph::Stop::net : ChannelGraph::Stop::gpu,
                                         static_cast<uint32_t>(file.number(step, "dev", kMostNumber))});
      }
    }
    graphs.push_back(std::move(graph));
    if (graphs.size() > kMostGraphs) file.refuse(node, fmt::format("more than {} graphs", kMostGraphs));
    if (!file.status().ok()) return file.status();
  }
  if (graphs.empty()) file.refuse(file.root(), "<graphs> has no <graph>");
  if (!file.status().ok()) return file.status();
  return graphs;
}

}  // namespace tutti
