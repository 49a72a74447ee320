// What `tutti topo` shows of a machine, and the forms it shows it in. Pure, but for `loaded`.
#pragma once

#include <string>

#include "topo/order.h"
#include "topo/read.h"

namespace tutti {

struct TopologyView {
  std::string title;  // the file's name, or "this machine"
  Machine machine;
  Fabric fabric;
  NodeOrder order;
  uint32_t nodes = 1;  // so many of these machines

  TopologyView(std::string name, Machine described, uint32_t count);
};

// Text: the tree of devices, the matrix of paths, the card of each GPU, and the orders.
std::string to_text(const TopologyView& view);
// The order of a graph file's channels.
std::string to_text(const std::string& title, const std::vector<ChannelGraph>& graphs);
std::string to_dot(const TopologyView& view);
// A picture of its own: no fonts, scripts or styles from elsewhere.
std::string to_svg(const TopologyView& view);

std::string to_svg(const std::string& title, const std::vector<ChannelGraph>& graphs);

// ---- words that several forms share

std::string_view name_of_graph(const ChannelGraph& graph);  // "ring", "tree", ...
// For SVG; what is longer than `most` bytes is cut.
std::string escaped(std::string_view text, size_t most);

std::string describe(const NumaNode& numa);
std::string describe(const Machine& machine);        // "2 NUMA nodes, 8 GPUs, ..."
std::string describe_link(const PciDevice& device);  // "16 GT/s x16, 24 GB/s"
std::string describe_speed(const Nic& nic);          // "400 Gb/s"
// Whether something that is shown stands below a PCI device, or is it: GPUs and cards.
std::vector<bool> shown_devices(const Machine& machine);
// As short as it reads back: "20.6", "12".
std::string gigabytes(double gb_s);

}  // namespace tutti
