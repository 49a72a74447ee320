// Graph: a machine as vertices and links with bandwidths, and the best paths in it. What Fabric is made from; nothing
// else uses it.
#pragma once

#include <cstdint>
#include <vector>

#include "topo/fabric.h"

namespace tutti {

class Graph {
 public:
  explicit Graph(const Machine& machine);

  uint32_t gpu(uint32_t g) const { return first_gpu_ + g; }
  uint32_t nic(uint32_t n) const { return first_nic_ + n; }
  const std::vector<double>& link_gb_s() const { return link_gb_s_; }

  struct Route {
    Path path;
    bool reached = false;
    bool by_intel = false;  // through an Intel processor
    std::vector<uint32_t> links;
  };
  // The widest of the shortest paths from a vertex to all others. O(links).
  std::vector<Route> routes_from(uint32_t source) const;

 private:
  enum class Kind : uint8_t { numa, bridge, gpu, nvswitch, card, nic };
  enum class LinkKind : uint8_t { pci, nvlink, c2c, socket, port };
  struct Arc {
    uint32_t to, link;
    LinkKind kind;
  };
  struct Vertex {
    Kind kind;
    bool intel = false;
    std::vector<Arc> arcs;
  };
  uint32_t add(Kind kind);
  void connect(uint32_t a, uint32_t b, LinkKind kind, double gb_s);
  void connect_directed(uint32_t from, uint32_t to, LinkKind kind, double gb_s);
  void add_sockets(const Machine& machine);
  void add_pci(const Machine& machine);
  void add_gpu_links(const Machine& machine);
  bool may_pass(uint32_t source, uint32_t at, const Arc& arc, uint32_t hops) const;
  PathClass class_of(PathClass so_far, uint32_t at, const Arc& arc, uint32_t source) const;

  std::vector<Vertex> vertices_;
  std::vector<double> link_gb_s_;
  uint32_t first_gpu_ = 0, first_nic_ = 0;
};

}  // namespace tutti
