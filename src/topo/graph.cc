#include "topo/graph.h"

#include <algorithm>
#include <map>

#include "topo/speeds.h"

namespace tutti {
namespace {

// Broadcom's large switches show themselves as two layers of switches, of which the second is inside the first: the
// same device, with the subsystem's highest digit one up. PCIe 4 and 5.
bool inside_parent(const PciDevice& device, const PciDevice& parent) {
  constexpr uint32_t kBroadcom = 0x1000;
  if (device.vendor != kBroadcom || parent.vendor != kBroadcom || device.device != parent.device) return false;
  if (device.device != 0xc010 && device.device != 0xc030) return false;
  return device.subsystem_device >> 12 == (parent.subsystem_device >> 12) + 1;
}

}  // namespace

Graph::Graph(const Machine& machine) {
  for (const NumaNode& numa : machine.numas) vertices_[add(Kind::numa)].intel = is_intel(numa);
  first_gpu_ = static_cast<uint32_t>(vertices_.size());
  for (size_t g = 0; g < machine.gpus.size(); ++g) add(Kind::gpu);
  first_nic_ = static_cast<uint32_t>(vertices_.size());
  for (size_t n = 0; n < machine.nics.size(); ++n) add(Kind::nic);
  add_sockets(machine);
  add_pci(machine);
  add_gpu_links(machine);
}

uint32_t Graph::add(Kind kind) {
  vertices_.push_back({kind, false, {}});
  return static_cast<uint32_t>(vertices_.size()) - 1;
}

void Graph::connect_directed(uint32_t from, uint32_t to, LinkKind kind, double gb_s) {
  // Links of one kind side by side are one; PCI and NVLink to the same processor are two, of which the wider is taken.
  for (const Arc& arc : vertices_[from].arcs) {
    if (arc.to != to || arc.kind != kind || kind != LinkKind::nvlink) continue;
    link_gb_s_[arc.link] += gb_s;
    return;
  }
  vertices_[from].arcs.push_back({to, static_cast<uint32_t>(link_gb_s_.size()), kind});
  link_gb_s_.push_back(gb_s);
}

void Graph::connect(uint32_t a, uint32_t b, LinkKind kind, double gb_s) {
  connect_directed(a, b, kind, gb_s);
  connect_directed(b, a, kind, gb_s);
}

void Graph::add_sockets(const Machine& machine) {
  const auto& numas = machine.numas;
  for (uint32_t a = 0; a < numas.size(); ++a)
    for (uint32_t b = a + 1; b < numas.size(); ++b)
      connect(a, b, LinkKind::socket, std::min(socket_gb_s(numas[a]), socket_gb_s(numas[b])));
}

void Graph::add_pci(const Machine& machine) {
  std::vector<uint32_t> vertex(machine.pci.size(), 0);
  std::vector<std::vector<uint32_t>> gpus(machine.pci.size());
  for (uint32_t g = 0; g < machine.gpus.size(); ++g) gpus[machine.gpus[g].pci].push_back(g);
  for (uint32_t d = 0; d < machine.pci.size(); ++d) {
    const PciDevice& device = machine.pci[d];
    const auto parent = static_cast<size_t>(device.parent);
    const uint32_t above = device.parent == kNone ? device.numa : vertex[parent];
    const double gb_s = pcie_gb_s(device.lane_gt_s, device.lanes);
    if (device.kind == PciKind::bridge && device.parent != kNone && inside_parent(device, machine.pci[parent])) {
      vertex[d] = above;
      continue;
    }
    if (device.kind == PciKind::bridge || device.kind == PciKind::nic)
      connect(vertex[d] = add(device.kind == PciKind::bridge ? Kind::bridge : Kind::card), above, LinkKind::pci, gb_s);
    for (const uint32_t g : gpus[d]) connect(gpu(g), above, LinkKind::pci, gb_s);
    if (device.kind == PciKind::gpu) vertex[d] = above;
  }
  for (uint32_t n = 0; n < machine.nics.size(); ++n) {
    const Nic& port = machine.nics[n];
    // A card whose speed is not told is taken to be as fast as its PCI link.
    double gb_s = port.mbit_s / 8000.0;
    if (gb_s == 0)
      gb_s = port.pci == kNone ? pcie_gb_s(0, 0)
                               : pcie_gb_s(machine.pci[static_cast<size_t>(port.pci)].lane_gt_s,
                                           machine.pci[static_cast<size_t>(port.pci)].lanes);
    const bool has_card = port.pci != kNone && machine.pci[static_cast<size_t>(port.pci)].kind == PciKind::nic;
    const uint32_t card = has_card ? vertex[static_cast<size_t>(port.pci)] : add(Kind::card);
    if (!has_card)
      connect(card, port.pci == kNone ? port.numa : vertex[static_cast<size_t>(port.pci)], LinkKind::pci, gb_s);
    connect(card, nic(n), LinkKind::port, gb_s);
  }
}

void Graph::add_gpu_links(const Machine& machine) {
  uint32_t nvswitch = UINT32_MAX;
  for (const GpuLink& link : machine.links) {
    const LinkKind kind = link.c2c ? LinkKind::c2c : LinkKind::nvlink;
    if (link.target_kind == GpuLinkTarget::gpu) {
      connect_directed(gpu(link.gpu), gpu(link.target), kind, link.gb_s);  // the other direction is listed as well
    } else if (link.target_kind == GpuLinkTarget::numa) {
      connect(gpu(link.gpu), link.target, kind, link.gb_s);
    } else {
      if (nvswitch == UINT32_MAX) nvswitch = add(Kind::nvswitch);
      connect(gpu(link.gpu), nvswitch, kind, link.gb_s);
    }
  }
}

// Whether a path from `source` that is at `at` after `hops` may go on along `arc`.
bool Graph::may_pass(uint32_t source, uint32_t at, const Arc& arc, uint32_t hops) const {
  if (at == source) return true;
  const Kind kind = vertices_[at].kind, to = vertices_[arc.to].kind;
  if (kind == Kind::nic) return false;
  if (kind == Kind::card) return arc.kind == LinkKind::port || vertices_[source].kind == Kind::nic;
  if (to == Kind::card) return vertices_[source].kind != Kind::nic;
  if (kind == Kind::gpu)
    return vertices_[source].kind == Kind::gpu && to == Kind::gpu && arc.kind == LinkKind::nvlink && hops == 1;
  return true;
}

PathClass Graph::class_of(PathClass so_far, uint32_t at, const Arc& arc, uint32_t source) const {
  const Kind from = vertices_[at].kind, to = vertices_[arc.to].kind;
  PathClass own = PathClass::loc;
  switch (arc.kind) {
    case LinkKind::pci:
      own = PathClass::pix;
      if (from == Kind::bridge && to == Kind::bridge) own = PathClass::pxb;
      // The chip-to-chip link was the way to the processor.
      if (from == Kind::numa || to == Kind::numa) own = so_far == PathClass::c2c ? PathClass::p2c : PathClass::phb;
      if (so_far == PathClass::p2c) own = PathClass::p2c;
      break;
    case LinkKind::nvlink:
      own = from == Kind::gpu && at != source ? PathClass::nvb : PathClass::nvl;
      if (from == Kind::numa) own = PathClass::phb;
      break;
    case LinkKind::c2c:
      own = from == Kind::numa && at != source ? PathClass::phb : PathClass::c2c;
      break;
    case LinkKind::socket:
      own = PathClass::sys;
      break;
    case LinkKind::port:
      break;
  }
  return std::max(so_far, own);
}

std::vector<Graph::Route> Graph::routes_from(uint32_t source) const {
  std::vector<Route> routes(vertices_.size());
  routes[source].reached = true;
  routes[source].path = {PathClass::loc, kLocalGbS, 0};
  std::vector<uint32_t> layer = {source}, next;
  for (uint32_t hops = 0; !layer.empty(); ++hops, layer = std::move(next)) {
    next.clear();
    for (const uint32_t at : layer)
      for (const Arc& arc : vertices_[at].arcs) {
        if (!may_pass(source, at, arc, hops)) continue;
        Route& to = routes[arc.to];
        const Route& from = routes[at];
        const double gb_s = std::min(from.path.gb_s, link_gb_s_[arc.link]);
        if (to.reached && (to.path.hops <= hops || to.path.gb_s >= gb_s)) continue;
        if (!to.reached) next.push_back(arc.to);
        to.reached = true;
        to.path = {class_of(from.path.path_class, at, arc, source), gb_s, hops + 1};
        to.by_intel = from.by_intel || (vertices_[at].kind == Kind::numa && vertices_[at].intel);
        to.links = from.links;
        to.links.push_back(arc.link);
      }
  }
  return routes;
}

}  // namespace tutti
