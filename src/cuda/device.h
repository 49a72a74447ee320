// Device: where a rank's buffers live, if not on the host: memory, kernels, and memory of other processes' devices.
//
// Two implementations: SimDevice (sim_device.h), which needs nothing, and the CUDA plug-in's. Callers hold one per rank.
//
// Threads: any, but for launches of one stream, which come from one thread at a time. Nothing here is called while an
// operation is under way but launch(), finished() and, at the end, abort words in memory: allocation and imports happen
// when a communicator is made or a plan first runs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "cuda/program.h"
#include "topo/machine.h"
#include "topo/path_class.h"

namespace tutti {

// Of a pointer that a caller gave.
struct PointerKind {
  enum class Where : uint8_t { host, device } where = Where::host;
  int device = -1;
  bool operator==(const PointerKind&) const = default;
};
// "host memory", "memory of device 3".
std::string describe(const PointerKind& kind);

// Which kernel.
struct KernelId {
  DataType type;
  ReduceOp op;
};

// A kernel under way.
class Running {
 public:
  virtual ~Running() = default;
  // Non-blocking. Once true, all that it wrote is seen by who asks.
  virtual Result<bool> finished() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view kind() const = 0;  // "sim", "cuda"
  virtual int index() const = 0;
  // Which machine it is in, beyond the host's name: simulated nodes of one host differ.
  virtual int node() const = 0;
  // The path to the device of that number in the same node.
  virtual PathClass path_to(int index) const = 0;
  // The node's GPUs and what joins them, where they are not those of this host; null: a probe of the host finds them,
  // or they are all alike.
  virtual const Machine* machine() const { return nullptr; }
  // Its number within the node.
  virtual int index_in_node() const { return index(); }
  // How many blocks of the move kernel fit on it at once, for all its ranks together.
  virtual uint32_t most_blocks() const = 0;

  // Zeroed; 4096-byte aligned. Errors: tuttiSystemError, with what is there and what was asked for.
  virtual Result<std::byte*> allocate(size_t bytes) = 0;
  // Zeroed host memory that kernels of this device reach at the same address.
  virtual Result<std::byte*> allocate_pinned(size_t bytes) = 0;
  virtual void free(std::byte* memory) = 0;  // of either kind
  // Where kernels find what a caller knows at `pointer`.
  virtual std::byte* kernel_address(const void* pointer) const = 0;
  // Between any two places; blocks. Not while an operation is under way.
  virtual Status copy(void* to, const void* from, size_t bytes) = 0;
  virtual PointerKind kind_of(const void* pointer) const = 0;

  // How others come to an allocation of this device: opaque, at most kMostExportBytes.
  static constexpr size_t kMostExportBytes = 512;
  virtual Result<std::vector<std::byte>> export_memory(const std::byte* memory) = 0;
  // Where this rank's kernels find what another rank of this node has exported. Errors say why not. Valid until the
  // device is destroyed.
  virtual Result<std::byte*> import_memory(std::span<const std::byte> exported) = 0;

  // Starts `blocks` blocks, all of which run at once. `event_descriptor` (an eventfd) is written to when they have ended.
  virtual Result<std::unique_ptr<Running>> launch(KernelId kernel, uint32_t blocks, const dev::Launch& arguments,
                                                  int event_descriptor) = 0;
};

}  // namespace tutti
