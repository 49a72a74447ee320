#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "topo/speeds.h"
#include "tutti/topo.h"

namespace tutti {
namespace {

std::string counted(size_t n, std::string_view one, std::string_view many) {
  return n == 1 ? fmt::format("1 {}", one) : fmt::format("{} {}", n == 0 ? "no" : std::to_string(n), many);
}

// A tree in text: each line with the bars of those above it.
class Tree {
 public:
  explicit Tree(const TopologyView& view) : view_(view), shown_(shown_devices(view.machine)) {}

  std::string draw() {
    const Machine& machine = view_.machine;
    for (uint32_t n = 0; n < machine.numas.size(); ++n) {
      const bool last = n + 1 == machine.numas.size();
      line("", last, describe(machine.numas[n]));
      children(kNone, n, last ? "   " : "│  ");
    }
    return std::move(text_);
  }

 private:
  void line(const std::string& bars, bool last, const std::string& what) {
    text_ += fmt::format("{}{} {}\n", bars, last ? "└─" : "├─", what);
  }

  // Of a switch, or (kNone) of a NUMA node itself.
  void children(int32_t parent, uint32_t numa, const std::string& bars) {
    const Machine& machine = view_.machine;
    std::vector<uint32_t> devices;
    for (uint32_t d = 0; d < machine.pci.size(); ++d)
      if (shown_[d] && machine.pci[d].parent == parent && (parent != kNone || machine.pci[d].numa == numa))
        devices.push_back(d);
    std::vector<std::string> loose;
    for (const Nic& nic : machine.nics)
      if (nic.pci == kNone && parent == kNone && nic.numa == numa) loose.push_back(describe_nic(nic));
    for (size_t i = 0; i < devices.size(); ++i) {
      const bool last = i + 1 == devices.size() && loose.empty();
      device(devices[i], bars, last);
      if (machine.pci[devices[i]].kind == PciKind::bridge)
        children(static_cast<int32_t>(devices[i]), numa, bars + (last ? "   " : "│  "));
    }
    for (size_t i = 0; i < loose.size(); ++i) line(bars, i + 1 == loose.size(), loose[i]);
  }

  void device(uint32_t d, const std::string& bars, bool last) {
    const Machine& machine = view_.machine;
    const PciDevice& pci = machine.pci[d];
    const std::string where = fmt::format("{}, {}", to_text(pci.bus), describe_link(pci));
    if (pci.kind == PciKind::bridge) return line(bars, last, "switch " + where);
    std::vector<std::string> parts;
    for (const Gpu& gpu : machine.gpus)
      if (gpu.pci == d)
        parts.push_back(fmt::format("GPU {}{}{}", gpu.dev, gpu.model.empty() ? "" : " " + gpu.model,
                                    gpu.arch.empty() ? "" : " " + gpu.arch));
    for (const Nic& nic : machine.nics)
      if (nic.pci == static_cast<int32_t>(d)) parts.push_back(describe_nic(nic));
    line(bars, last, fmt::format("{}  ({})", fmt::join(parts, ", "), where));
  }

  static std::string describe_nic(const Nic& nic) {
    std::string text = fmt::format("NIC {} {}", nic.dev, nic.name);
    if (!nic.interface.empty()) text += "/" + nic.interface;
    if (nic.mbit_s != 0) text += " " + describe_speed(nic);
    if (nic.mtu != 0) text += fmt::format(", MTU {}", nic.mtu);
    if (!nic.addresses.empty()) text += fmt::format(", {}", fmt::join(nic.addresses, " "));
    return text + (nic.up ? "" : ", down");
  }

  const TopologyView& view_;
  const std::vector<bool> shown_;
  std::string text_;
};

std::string cell(const Path& path) {
  if (path.path_class == PathClass::net) return "-";  // no path that is known
  if (path.path_class == PathClass::loc) return "LOC";
  return fmt::format("{} {}", name_of(path.path_class), gigabytes(path.gb_s));
}

std::string matrix(const TopologyView& view) {
  constexpr size_t kWidth = 10;
  std::string text = fmt::format("{:<7}", "");
  for (const Gpu& gpu : view.machine.gpus) text += fmt::format("{:<{}}", fmt::format("GPU{}", gpu.dev), kWidth);
  for (const Nic& nic : view.machine.nics) text += fmt::format("{:<{}}", fmt::format("NIC{}", nic.dev), kWidth);
  for (uint32_t a = 0; a < view.fabric.gpus(); ++a) {
    text.resize(text.find_last_not_of(' ') + 1);
    text += fmt::format("\n{:<7}", fmt::format("GPU{}", view.machine.gpus[a].dev));
    for (uint32_t b = 0; b < view.fabric.gpus(); ++b)
      text += fmt::format("{:<{}}", cell(view.fabric.between_gpus(a, b)), kWidth);
    for (uint32_t n = 0; n < view.fabric.nics(); ++n)
      text += fmt::format("{:<{}}", cell(view.fabric.to_nic(a, n)), kWidth);
  }
  text.resize(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::string cards(const TopologyView& view) {
  std::string text;
  for (uint32_t g = 0; g < view.fabric.gpus(); ++g) {
    const int32_t nic = view.fabric.nic_of(g);
    if (nic == kNone) continue;
    const Path& path = view.fabric.to_nic(g, static_cast<uint32_t>(nic));
    text +=
        fmt::format("  GPU {} by {} ({}, {} GB/s)\n", view.machine.gpus[g].dev,
                    view.machine.nics[static_cast<size_t>(nic)].name, name_of(path.path_class), gigabytes(path.gb_s));
  }
  return text.empty() ? "" : "card of each GPU\n" + text;
}

std::string name_of_nic(const TopologyView& view, int32_t nic) {
  return nic == kNone ? "-" : view.machine.nics[static_cast<size_t>(nic)].name;
}

std::string lanes(const TopologyView& view) {
  if (view.order.lanes.empty()) return "";
  std::string text = fmt::format("ring of each lane; together {} GB/s within the node", gigabytes(view.order.gb_s));
  if (view.order.between_gb_s > 0) text += fmt::format(", {} GB/s between nodes", gigabytes(view.order.between_gb_s));
  text += "\n";
  for (size_t l = 0; l < view.order.lanes.size(); ++l) {
    const LaneOrder& lane = view.order.lanes[l];
    text += fmt::format("  lane {:<2} {}  ({}, {} GB/s", l, fmt::join(lane.gpus, " "), name_of(lane.widest_class),
                        gigabytes(lane.gb_s));
    if (lane.nic != kNone)
      text += fmt::format("; in and out by {}: {}, {}", name_of_nic(view, lane.nic), name_of(lane.in.path_class),
                          name_of(lane.out.path_class));
    text += ")\n";
  }
  return text;
}

// Nodes as an in-order binary tree and the same one place on, so that inner nodes of one are leaves of the other;
// within a node the tree is the chain of the lane.
std::string trees(const TopologyView& view) {
  if (view.order.lanes.empty()) return "";
  std::string text = "tree of each lane: the chain in the same order within a node";
  if (view.nodes == 1) return text + "\n";
  text += "; between nodes, who is whose parent\n";
  const uint32_t m = view.nodes - 1;
  for (const uint32_t shift : {0u, 1u}) {
    text += fmt::format("  {} lanes:", shift == 0 ? "even" : "odd ");
    for (uint32_t node = 1; node < std::min(view.nodes, 33u); ++node) {
      const uint32_t place = shift == 0 ? node : node % m + 1;
      uint32_t parent = place;
      do {
        const uint32_t bit = parent & (~parent + 1);
        parent = (parent & ~bit) | (bit * 2);
      } while (parent > m && parent <= 2 * m);
      const bool root = place == std::bit_floor(m);
      const uint32_t above = root ? 0 : shift == 0 ? parent : (parent + m - 2) % m + 1;
      text += fmt::format(" {}<{}", above, node);
    }
    text += view.nodes > 33 ? " ...\n" : "\n";
  }
  return text;
}

std::string across_nodes(const TopologyView& view) {
  if (view.nodes == 1 || view.order.lanes.empty()) return "";
  Cluster cluster;
  for (uint32_t n = 0; n < view.nodes; ++n) cluster.add_node(view.machine);
  const auto rings = cluster.rings();
  std::string text = fmt::format("order of {} ranks over {} nodes\n", cluster.ranks(), view.nodes);
  const size_t per_node = cluster.ranks() / view.nodes;
  for (size_t l = 0; l < rings.size(); ++l) {
    text += fmt::format("  lane {:<2}", l);
    for (size_t node = 0; node < std::min(view.nodes, 8u); ++node)
      text += fmt::format(" {}{}", node == 0 ? "" : "> ",
                          fmt::join(rings[l].begin() + static_cast<ptrdiff_t>(node * per_node),
                                    rings[l].begin() + static_cast<ptrdiff_t>((node + 1) * per_node), " "));
    text += view.nodes > 8 ? " > ...\n" : "\n";
  }
  return text;
}

}  // namespace

TopologyView::TopologyView(std::string name, Machine described, uint32_t count)
    : title(std::move(name)), machine(std::move(described)), fabric(machine), order(find_order(fabric)), nodes(count) {}

std::string gigabytes(double gb_s) { return gb_s >= 100 ? fmt::format("{:.0f}", gb_s) : fmt::format("{:.3g}", gb_s); }

std::string describe(const NumaNode& numa) {
  std::string text = fmt::format("NUMA {}", numa.os_index);
  if (!numa.vendor.empty()) text += fmt::format("  {} {}/{}", numa.vendor, numa.family, numa.model);
  return text;
}

std::string describe(const Machine& machine) {
  std::string text = fmt::format("{}, {}, {}", counted(machine.numas.size(), "NUMA node", "NUMA nodes"),
                                 counted(machine.gpus.size(), "GPU", "GPUs"),
                                 counted(machine.nics.size(), "network port", "network ports"));
  if (!machine.nvswitches.empty()) text += ", " + counted(machine.nvswitches.size(), "NVSwitch", "NVSwitches");
  return text;
}

std::string describe_link(const PciDevice& device) {
  const std::string gb_s = gigabytes(pcie_gb_s(device.lane_gt_s, device.lanes)) + " GB/s";
  if (device.lane_gt_s == 0) return "about " + gb_s;
  return fmt::format("{} GT/s x{}, {}", device.lane_gt_s, device.lanes == 0 ? 16 : device.lanes, gb_s);
}

std::string describe_speed(const Nic& nic) {
  return nic.mbit_s >= 1000 ? fmt::format("{} Gb/s", nic.mbit_s / 1000.0) : fmt::format("{} Mb/s", nic.mbit_s);
}

std::vector<bool> shown_devices(const Machine& machine) {
  std::vector<bool> shown(machine.pci.size(), false);
  for (const Gpu& gpu : machine.gpus) shown[gpu.pci] = true;
  for (const Nic& nic : machine.nics)
    if (nic.pci != kNone) shown[static_cast<size_t>(nic.pci)] = true;
  for (size_t d = machine.pci.size(); d-- > 0;)  // children stand behind their parents
    if (shown[d] && machine.pci[d].parent != kNone) shown[static_cast<size_t>(machine.pci[d].parent)] = true;
  return shown;
}

std::string to_text(const TopologyView& view) {
  std::string text = fmt::format("{}: {}\n{}", view.title, describe(view.machine), Tree(view).draw());
  if (view.fabric.gpus() > 0) {
    text += "\npaths: class and GB/s\n" + matrix(view) + "\n";
    for (const std::string& part : {cards(view), lanes(view), trees(view), across_nodes(view)}) text += part;
  } else {
    text += "\nno GPUs: ranks on the host run in the order of their numbers, those of a node one after another\n";
  }
  return text;
}

std::string_view name_of_graph(const ChannelGraph& graph) {
  constexpr std::string_view kKinds[] = {"ring", "tree", "collnet chain", "nvls", "collnet direct"};
  return graph.id < std::size(kKinds) ? kKinds[graph.id] : "graph";
}

std::string to_text(const std::string& title, const std::vector<ChannelGraph>& graphs) {
  std::string text = fmt::format("{}: {}\n", title, counted(graphs.size(), "graph", "graphs"));
  for (const ChannelGraph& graph : graphs) {
    text += fmt::format("{} (pattern {}): {} GB/s and {} within a node, {} GB/s and {} between nodes\n",
                        name_of_graph(graph), graph.pattern, gigabytes(graph.gb_s_intra), graph.type_intra,
                        gigabytes(graph.gb_s_inter), graph.type_inter);
    for (size_t c = 0; c < graph.channels.size(); ++c) {
      text += fmt::format("  lane {:<2}", c);
      for (const ChannelGraph::Step& step : graph.channels[c])
        text += fmt::format(" {}{}", step.stop == ChannelGraph::Stop::net ? "net" : "", step.dev);
      text += "\n";
    }
  }
  return text;
}

}  // namespace tutti
