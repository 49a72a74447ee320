// Machine: what one host is made of, as a value: NUMA nodes, the PCI tree with its link speeds, GPUs, network cards,
// and the links among GPUs. Read from a file or probed; nothing here talks to the system.
//
// All references are indices into the vectors of the same Machine, so that a copy is a copy and two equal hosts compare
// equal. check() says whether the indices hold together; every reader calls it, and everything else may rely on it.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti {

// A PCI address, "0000:1b:00.0".
struct BusId {
  uint32_t domain = 0;
  uint8_t bus = 0, device = 0, function = 0;
  auto operator<=>(const BusId&) const = default;
};
std::string to_text(const BusId& bus);
// Accepts a missing domain or function ("1b:00"). False when `text` is no PCI address.
bool parse_bus_id(std::string_view text, BusId& bus);

struct NumaNode {
  uint32_t os_index = 0;
  uint32_t package = 0;  // which processor it belongs to: equal for nodes of one
  std::string arch;      // "x86_64", "arm64", "ppc64"
  std::string vendor;    // as cpuid says it: "GenuineIntel", "AuthenticAMD"
  uint32_t family = 0, model = 0;
  std::string cores;  // mask, 32 bits between commas, the highest first: "0000ffff,ffffffff"
  bool operator==(const NumaNode&) const = default;
};

enum class PciKind : uint8_t { bridge, gpu, nic, nvswitch, other };
std::string_view name_of(PciKind kind);

constexpr int32_t kNone = -1;

// A PCI device. A bridge stands for a whole switch: its upstream port, with the downstream ports left out.
struct PciDevice {
  BusId bus;
  PciKind kind = PciKind::other;
  int32_t parent = kNone;  // the switch above; kNone: at the processor
  uint32_t numa = 0;
  uint32_t class_code = 0;          // 24 bits: 0x030200
  uint32_t vendor = 0, device = 0;  // 0: not known
  uint32_t subsystem_vendor = 0, subsystem_device = 0;
  double lane_gt_s = 0;  // of the link to the parent; 0: not known
  uint32_t lanes = 0;
  bool operator==(const PciDevice&) const = default;
};

struct Gpu {
  uint32_t pci = 0;
  uint32_t dev = 0;   // its number to CUDA or ROCm
  uint32_t sm = 0;    // NVIDIA's compute capability (90); AMD: compute units
  std::string arch;   // AMD's "gfx942"; empty for others
  std::string model;  // "Tesla V100-SXM3-32GB", where known
  bool gdr = false;   // network cards may read and write its memory
  bool operator==(const Gpu&) const = default;
};

// One port of a network card.
struct Nic {
  int32_t pci = kNone;  // kNone: attached to no PCI device that is known
  uint32_t numa = 0;
  std::string name;       // "mlx5_0", "eth0"
  std::string interface;  // the network interface that belongs to it, where that is another name
  uint32_t dev = 0, port = 0;
  uint32_t mbit_s = 0;  // 0: not known
  uint64_t guid = 0;
  bool gdr = false;
  bool up = true;
  uint32_t mtu = 0;  // 0: not known
  std::vector<std::string> addresses;
  bool operator==(const Nic&) const = default;
};

// Where a GPU's link leads. All NVSwitches of a host count as one: every GPU has links to each of them.
enum class GpuLinkTarget : uint8_t { gpu, nvswitch, numa };
struct GpuLink {
  uint32_t gpu = 0;
  GpuLinkTarget target_kind = GpuLinkTarget::gpu;
  uint32_t target = 0;  // a GPU, an NVSwitch or a NUMA node
  uint32_t count = 0;   // links side by side
  double gb_s = 0;      // of all of them, in one direction
  bool xgmi = false;    // AMD's; else NVLink
  bool c2c = false;     // chip to chip, between a GPU and the processor in its package
  bool operator==(const GpuLink&) const = default;
};

struct NvSwitch {
  BusId bus;
  bool operator==(const NvSwitch&) const = default;
};

struct Machine {
  std::vector<NumaNode> numas;  // at least one
  std::vector<PciDevice> pci;   // a parent stands before its children
  std::vector<Gpu> gpus;        // by dev
  std::vector<Nic> nics;        // by dev
  std::vector<NvSwitch> nvswitches;
  std::vector<GpuLink> links;  // each direction its own: GPU to GPU is there twice
  bool operator==(const Machine&) const = default;
};

// What a machine may have at most; far above what exists, and low enough that nothing here gets slow.
constexpr size_t kMostNumas = 256, kMostPci = 4096, kMostGpus = 256, kMostNics = 1024, kMostGpuLinks = 65536;

// tuttiInvalidUsage naming the first index that leads nowhere, or the count that is too large.
Status check(const Machine& machine);

// GPUs and network cards by dev, renumbering what refers to them.
void sort_devices(Machine& machine);

// Without the names and addresses that are one host's: the same for hosts that are built alike.
Machine structure_of(Machine machine);

// With these GPUs alone (places in machine.gpus, increasing), in that order; links to the others go with them.
Machine with_gpus(Machine machine, std::span<const uint32_t> gpus);

// bridge, gpu, nic, ... from a class code and the vendor (0: not known).
PciKind kind_of_class(uint32_t class_code, uint32_t vendor);

}  // namespace tutti
