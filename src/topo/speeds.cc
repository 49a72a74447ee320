#include "topo/speeds.h"

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

struct PcieGeneration {
  double lane_gt_s, wire_gb_s, lane_gb_s;  // of a lane: transfers, bytes on the wire, bytes in practice
};
// Generations 1 and 2 code 8 bits in 10; 3 to 5 code 128 in 130; 6 in frames of 242 of 256.
constexpr PcieGeneration kPcie[] = {{2.5, 0.25, 15 / 80.0},    {5, 0.5, 30 / 80.0},       {8, 0.98462, 60 / 80.0},
                                    {16, 1.96923, 120 / 80.0}, {32, 3.93846, 240 / 80.0}, {64, 7.5625, 480 / 80.0}};
constexpr size_t kUsualGeneration = 2;
constexpr uint32_t kUsualLanes = 16;

struct NvlinkGeneration {
  uint32_t sm;  // from this compute capability on
  double gb_s, wire_mb_s;
};
constexpr NvlinkGeneration kNvlink[] = {{60, 18, 20000}, {70, 20, 25000},   {80, 20, 25000},
                                        {86, 12, 14063}, {90, 20.6, 26562}, {100, 40.1, 50000}};

const NvlinkGeneration& nvlink_of(uint32_t sm) {
  const NvlinkGeneration* found = &kNvlink[1];  // where the GPU is not known: as most are
  for (const NvlinkGeneration& row : kNvlink)
    if (sm >= row.sm) found = &row;
  return *found;
}

}  // namespace

double pcie_gb_s(double lane_gt_s, uint32_t lanes) {
  const PcieGeneration* found = &kPcie[kUsualGeneration];
  if (lane_gt_s > 0) {
    found = &kPcie[0];
    for (const PcieGeneration& row : kPcie)
      if (lane_gt_s >= row.lane_gt_s - 0.01) found = &row;
  }
  return found->lane_gb_s * (lanes == 0 ? kUsualLanes : lanes);
}

void pcie_link_of(double wire_gb_s, double& lane_gt_s, uint32_t& lanes) {
  lane_gt_s = 0;
  lanes = 0;
  if (!(wire_gb_s > 0)) return;
  double nearest = 1e9;
  // Several pairs give the same rate; the widest is the likeliest, and they are worth the same.
  for (uint32_t width = 16; width >= 1; width /= 2)
    for (const PcieGeneration& row : kPcie) {
      const double distance = std::abs(row.wire_gb_s * width - wire_gb_s) / wire_gb_s;
      if (distance >= nearest - 1e-4) continue;
      nearest = distance;
      lane_gt_s = row.lane_gt_s;
      lanes = width;
    }
}

double nvlink_gb_s(uint32_t sm) { return nvlink_of(sm).gb_s; }
double nvlink_wire_mb_s(uint32_t sm) { return nvlink_of(sm).wire_mb_s; }

double xgmi_gb_s(std::string_view arch) {
  // Older files say 910 for gfx90a.
  if (arch.find("90a") != std::string_view::npos || arch == "910") return 36;
  if (arch.find("94") != std::string_view::npos || arch.find("95") != std::string_view::npos) return 48;
  return 24;
}

uint32_t sm_of_model(std::string_view model) {
  constexpr struct {
    std::string_view word;
    uint32_t sm;
  } kModels[] = {{"P100", 60},  {"V100", 70},  {"GB200", 100}, {"GB300", 103}, {"GH200", 90},
                 {"B200", 100}, {"B300", 103}, {"H100", 90},   {"H200", 90},   {"H800", 90},
                 {"H20", 90},   {"A100", 80},  {"A800", 80},   {"A30", 80}};
  for (const auto& [word, sm] : kModels)
    if (model.find(word) != std::string_view::npos) return sm;
  return 0;
}

bool is_intel(const NumaNode& numa) { return numa.vendor == "GenuineIntel"; }

double socket_gb_s(const NumaNode& numa) {
  if (numa.arch.starts_with("ppc")) return 32;
  if (numa.arch.starts_with("arm") || numa.arch == "aarch64") return 6;
  if (numa.vendor == "AuthenticAMD") return 16;
  if (!is_intel(numa) || numa.family != 6) return 6;
  // Emerald and Sapphire Rapids, Skylake and what is like it, Broadwell and before.
  if (numa.model >= 0xcf) return 40;
  if (numa.model >= 0x8f) return 22;
  return numa.model >= 0x55 ? 10 : 6;
}

}  // namespace tutti
