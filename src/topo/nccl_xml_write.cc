#include <pugixml.hpp>

#include <sstream>

#include "topo/write.h"

namespace tutti {
namespace {

using pugi::xml_node;

void set(xml_node node, const char* name, const std::string& value) {
  node.append_attribute(name).set_value(value.c_str());
}

class NcclWriter {
 public:
  explicit NcclWriter(const Machine& machine) : machine_(machine) {}

  std::string write() {
    xml_node system = document_.append_child("system");
    bool xgmi = false;
    for (const GpuLink& link : machine_.links) xgmi |= link.xgmi;
    set(system, "version", xgmi ? "2" : "1");
    std::vector<xml_node> cpus;
    for (const NumaNode& numa : machine_.numas) {
      xml_node cpu = cpus.emplace_back(system.append_child("cpu"));
      set(cpu, "numaid", std::to_string(numa.os_index));
      set(cpu, "affinity", numa.cores);
      set(cpu, "arch", numa.arch);
      if (!numa.vendor.empty()) set(cpu, "vendor", numa.vendor);
      set(cpu, "familyid", std::to_string(numa.family));
      set(cpu, "modelid", std::to_string(numa.model));
    }
    std::vector<xml_node> devices;
    for (const PciDevice& device : machine_.pci)
      devices.push_back(
          write_pci(device.parent == kNone ? cpus[device.numa] : devices[static_cast<size_t>(device.parent)], device));
    for (uint32_t g = 0; g < machine_.gpus.size(); ++g) write_gpu(devices[machine_.gpus[g].pci], g);
    for (const Nic& nic : machine_.nics)
      write_nic(nic.pci == kNone ? cpus[nic.numa] : devices[static_cast<size_t>(nic.pci)], nic);
    std::ostringstream text;
    document_.save(text, "  ", pugi::format_indent | pugi::format_no_declaration);
    return text.str();
  }

 private:
  static xml_node write_pci(xml_node parent, const PciDevice& device) {
    xml_node node = parent.append_child("pci");
    set(node, "busid", to_text(device.bus));
    set(node, "class", fmt::format("0x{:06x}", device.class_code));
    if (device.vendor != 0) {
      set(node, "vendor", fmt::format("0x{:04x}", device.vendor));
      set(node, "device", fmt::format("0x{:04x}", device.device));
      set(node, "subsystem_vendor", fmt::format("0x{:04x}", device.subsystem_vendor));
      set(node, "subsystem_device", fmt::format("0x{:04x}", device.subsystem_device));
    }
    set(node, "link_speed", device.lane_gt_s > 0 ? fmt::format("{:.1f} GT/s PCIe", device.lane_gt_s) : "");
    set(node, "link_width", std::to_string(device.lanes));
    return node;
  }

  void write_gpu(xml_node parent, uint32_t index) {
    const Gpu& gpu = machine_.gpus[index];
    xml_node node = parent.append_child("gpu");
    set(node, "dev", std::to_string(gpu.dev));
    set(node, "sm", std::to_string(gpu.sm));
    if (!gpu.arch.empty()) set(node, "gcn", gpu.arch);
    set(node, "rank", std::to_string(index));
    set(node, "gdr", gpu.gdr ? "1" : "0");
    for (const GpuLink& link : machine_.links)
      if (link.gpu == index) write_link(node, link);
  }

  void write_link(xml_node parent, const GpuLink& link) {
    if (link.c2c) {
      xml_node node = parent.append_child("c2c");
      set(node, "bw", fmt::format("{:.0f}", link.gb_s * 1000 / link.count));
      set(node, "count", std::to_string(link.count));
      return;
    }
    xml_node node = parent.append_child(link.xgmi ? "xgmi" : "nvlink");
    BusId target;  // of a processor: its bridges are not known, and the class says all
    uint32_t target_class = 0x068001;
    if (link.target_kind == GpuLinkTarget::nvswitch) {
      target = machine_.nvswitches[link.target].bus;
      target_class = 0x068000;
    } else if (link.target_kind == GpuLinkTarget::gpu) {
      const PciDevice& device = machine_.pci[machine_.gpus[link.target].pci];
      target = device.bus;
      target_class = device.class_code;
    }
    set(node, "target", to_text(target));
    set(node, "count", std::to_string(link.count));
    set(node, "tclass", fmt::format("0x{:06x}", target_class));
  }

  static void write_nic(xml_node parent, const Nic& nic) {
    xml_node holder = parent.child("nic");
    if (!holder) holder = parent.append_child("nic");
    xml_node node = holder.append_child("net");
    set(node, "name", nic.name);
    set(node, "dev", std::to_string(nic.dev));
    set(node, "speed", std::to_string(nic.mbit_s));
    set(node, "port", std::to_string(nic.port));
    set(node, "guid", fmt::format("0x{:x}", nic.guid));
    set(node, "gdr", nic.gdr ? "1" : "0");
  }

  const Machine& machine_;
  pugi::xml_document document_;
};

}  // namespace

std::string to_nccl_xml(const Machine& machine) { return NcclWriter(machine).write(); }

}  // namespace tutti
