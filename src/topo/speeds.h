// Speeds: what links carry in practice, in GB/s (10^9 bytes a second) and one direction. Below the wire's rate, by what
// packets and flow control take; figures as NCCL and RCCL use them, so that results compare.
#pragma once

#include <string_view>

#include "topo/machine.h"

namespace tutti {

// PCI Express. Unknown rate or width (0): generation 3, 16 lanes, which is 12 GB/s.
double pcie_gb_s(double lane_gt_s, uint32_t lanes);
// The rate and width whose wire carries `wire_gb_s`, as hwloc tells of a link; zeros for 0.
void pcie_link_of(double wire_gb_s, double& lane_gt_s, uint32_t& lanes);

// One NVLink of a GPU with compute capability `sm`; one xGMI link of "gfx942", or "942".
double nvlink_gb_s(uint32_t sm);
double xgmi_gb_s(std::string_view arch);
// Megabytes a second that drivers tell of one NVLink, from which the number of links is seen.
double nvlink_wire_mb_s(uint32_t sm);
// From a product's name ("Tesla V100-SXM3-32GB"); 0 where it is none that is known.
uint32_t sm_of_model(std::string_view model);

// Between two processors.
double socket_gb_s(const NumaNode& numa);
bool is_intel(const NumaNode& numa);

constexpr double kLocalGbS = 5000;  // within a device

}  // namespace tutti
