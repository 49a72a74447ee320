// Fabric: how the GPUs and network cards of one machine reach each other: for each pair the class of the path, in
// NCCL's words, its bandwidth and its hops. Pure; made from a Machine that check() accepts.
//
// A path has the fewest hops, and among those the greatest bandwidth (widest-shortest). It may pass one other GPU, by
// NVLinks; never a network card.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "topo/machine.h"
#include "topo/path_class.h"

namespace tutti {

struct Path {
  PathClass path_class = PathClass::net;
  double gb_s = 0;
  uint32_t hops = 0;
  bool operator==(const Path&) const = default;
};

class Fabric {
 public:
  // O(GPUs x links of the machine): 0.1 ms for a node of 16 GPUs.
  explicit Fabric(const Machine& machine);

  uint32_t gpus() const { return gpus_; }
  uint32_t nics() const { return nics_; }
  const Path& between_gpus(uint32_t from, uint32_t to) const { return gpu_paths_[from * gpus_ + to]; }
  // Straight, or by way of another GPU (pxn) where that is nearer.
  const Path& to_nic(uint32_t gpu, uint32_t nic) const { return nic_paths_[gpu * nics_ + nic]; }

  // The cards that are up and nearest to a GPU, itself and not by way of another; by class, then bandwidth.
  std::span<const uint32_t> nearest_nics(uint32_t gpu) const { return nearest_[gpu]; }
  // One of them: GPUs with the same nearest cards take turns. kNone where there is none.
  int32_t nic_of(uint32_t gpu) const { return nic_of_[gpu]; }

  // ---- for the search of orders: links are counted in each direction by itself
  std::span<const uint32_t> route(uint32_t from, uint32_t to) const { return routes_[from * gpus_ + to]; }
  // How much of a link's bandwidth a byte between the two takes: 1, or 1.2 through an Intel processor, which cuts what
  // GPUs send each other into small packets.
  double load(uint32_t from, uint32_t to) const { return loads_[from * gpus_ + to]; }
  const std::vector<double>& link_gb_s() const { return link_gb_s_; }

 private:
  void relay();
  void choose_nics(const Machine& machine);

  uint32_t gpus_ = 0, nics_ = 0;
  std::vector<Path> gpu_paths_, nic_paths_;
  std::vector<std::vector<uint32_t>> routes_, nearest_;
  std::vector<double> loads_, link_gb_s_;
  std::vector<int32_t> nic_of_;
};

}  // namespace tutti
