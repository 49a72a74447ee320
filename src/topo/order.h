// Order: in which order rings go through the GPUs of a node and through the nodes, by search over the fabric. Pure and
// deterministic: all ranks that search the same fabric find the same.
//
// Within a node: the set of rings with the greatest sum of bandwidths, each ring's being what its narrowest link gives
// to it, where every link counts in each direction by itself. Between nodes: each ring becomes a lane that enters the
// node and leaves it through one network card, cut open where that card is nearest, so that a lane keeps to its rail.
#pragma once

#include <cstdint>
#include <vector>

#include "topo/fabric.h"

namespace tutti {

struct LaneOrder {
  std::vector<uint32_t> gpus;               // in order; the first follows the last within one node
  double gb_s = 0;                          // of this lane within the node
  PathClass widest_class = PathClass::loc;  // the worst between neighbours
  int32_t nic = kNone;                      // by which the lane enters (at the first GPU) and leaves (at the last)
  Path in, out;                             // of those two GPUs to the card
};

struct NodeOrder {
  std::vector<LaneOrder> lanes;
  double gb_s = 0;          // of all lanes together, within the node
  double between_gb_s = 0;  // and when they go through the cards; 0 without cards
};

// The search is bounded by steps, not by time: at most some 100 ms for 16 GPUs, most often 1 ms. Without GPUs: no
// lanes.
NodeOrder find_order(const Fabric& fabric);

// Several nodes, of which equal ones are kept once; ranks are numbered node by node, a rank for each GPU.
class Cluster {
 public:
  // Hosts that differ in names and addresses only are equal.
  void add_node(const Machine& machine);
  uint32_t nodes() const { return static_cast<uint32_t>(kind_of_.size()); }
  uint32_t ranks() const { return first_rank_.empty() ? 0 : first_rank_.back(); }
  size_t kinds() const { return kinds_.size(); }
  // O(1) once a kind's fabric is known.
  Path between(uint32_t rank, uint32_t other) const;
  // A ring of all ranks for each lane; the nodes one after another, the ranks of a node in its order. O(ranks x lanes).
  std::vector<std::vector<uint32_t>> rings() const;
  const NodeOrder& order_of(uint32_t node) const { return kinds_[kind_of_[node]].order; }

 private:
  struct Kind {
    Machine machine;
    Fabric fabric;
    NodeOrder order;
  };
  std::vector<Kind> kinds_;
  std::vector<uint32_t> kind_of_;     // by node
  std::vector<uint32_t> first_rank_;  // by node, and the number of ranks at the end
};

}  // namespace tutti
