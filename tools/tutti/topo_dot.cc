#include <fmt/format.h>

#include "topo/speeds.h"
#include "tutti/topo.h"

namespace tutti {
namespace {

// For dot: quotes and backslashes in names would end the text.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + "\"";
}

std::string node_of(const Machine& machine, int32_t pci, uint32_t numa) {
  return pci == kNone ? fmt::format("numa{}", machine.numas[numa].os_index) : fmt::format("pci{}", pci);
}

std::string gpu_links(const Machine& machine) {
  std::string text;
  for (const GpuLink& link : machine.links) {
    const std::string label = fmt::format("{}x, {} GB/s", link.count, gigabytes(link.gb_s));
    if (link.target_kind == GpuLinkTarget::gpu) {
      // Both directions are one line.
      if (link.gpu < link.target)
        text += fmt::format("  gpu{} -- gpu{} [label=\"{}\", color=\"#2e7d32\", penwidth={}, constraint=false];\n",
                            link.gpu, link.target, label, std::min(1 + link.count, 5u));
    } else {
      const bool nvswitch = link.target_kind == GpuLinkTarget::nvswitch;
      text += fmt::format("  gpu{} -- {} [label=\"{}\", color=\"#2e7d32\"];\n", link.gpu,
                          nvswitch ? fmt::format("nvswitch{}", link.target)
                                   : fmt::format("numa{}", machine.numas[link.target].os_index),
                          label);
    }
  }
  for (size_t s = 0; s < machine.nvswitches.size(); ++s)
    text += fmt::format("  nvswitch{} [label=\"NVSwitch\\n{}\", style=filled, fillcolor=\"#c8e6c9\"];\n", s,
                        to_text(machine.nvswitches[s].bus));
  return text;
}

}  // namespace

std::string to_dot(const TopologyView& view) {
  const Machine& machine = view.machine;
  const std::vector<bool> shown = shown_devices(machine);
  std::string text =
      fmt::format("graph machine {{\n  label={};\n  node [shape=box, fontname=\"sans-serif\"];\n", quoted(view.title));
  for (size_t a = 0; a < machine.numas.size(); ++a) {
    const NumaNode& numa = machine.numas[a];
    text += fmt::format("  numa{} [label={}, style=filled, fillcolor=\"#eceff1\"];\n", numa.os_index,
                        quoted(describe(numa)));
    for (size_t b = a + 1; b < machine.numas.size(); ++b)
      text +=
          fmt::format("  numa{} -- numa{} [label=\"{} GB/s\", style=dashed];\n", numa.os_index,
                      machine.numas[b].os_index, gigabytes(std::min(socket_gb_s(numa), socket_gb_s(machine.numas[b]))));
  }
  for (uint32_t d = 0; d < machine.pci.size(); ++d) {
    const PciDevice& device = machine.pci[d];
    if (!shown[d] || device.kind != PciKind::bridge) continue;
    text += fmt::format("  pci{} [label=\"switch\\n{}\"];\n  {} -- pci{} [label={}];\n", d, to_text(device.bus),
                        node_of(machine, device.parent, device.numa), d, quoted(describe_link(device)));
  }
  for (uint32_t g = 0; g < machine.gpus.size(); ++g) {
    const PciDevice& device = machine.pci[machine.gpus[g].pci];
    text += fmt::format(
        "  gpu{} [label=\"GPU {}\\n{}\", style=filled, fillcolor=\"#bbdefb\"];\n  {} -- gpu{} [label={}];\n", g,
        machine.gpus[g].dev, to_text(device.bus), node_of(machine, device.parent, device.numa), g,
        quoted(describe_link(device)));
  }
  for (uint32_t n = 0; n < machine.nics.size(); ++n) {
    const Nic& nic = machine.nics[n];
    const PciDevice* device = nic.pci == kNone ? nullptr : &machine.pci[static_cast<size_t>(nic.pci)];
    text +=
        fmt::format("  nic{} [label={}, style=filled, fillcolor=\"#ffe0b2\"];\n  {} -- nic{}{};\n", n, quoted(nic.name),
                    device ? node_of(machine, device->parent, device->numa) : node_of(machine, kNone, nic.numa), n,
                    device ? fmt::format(" [label={}]", quoted(describe_link(*device))) : "");
  }
  return text + gpu_links(machine) + "}\n";
}

}  // namespace tutti
