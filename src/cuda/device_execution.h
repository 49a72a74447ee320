// DeviceExecution: runs one rank's plan on device memory, by one kernel: the second implementation of what Execution
// (engine/execution.h) is on the host, held against it by tests.
//
// Made once per plan: the lanes, their moves and their FIFOs are laid out in device memory, once. start() binds an
// operation and launches the kernel; poll() asks how it stands. Allocates nothing after the first use of a size. One
// thread at a time; nothing blocks but the destructor and cancel(), which end what is under way: some microseconds, as
// lanes look at the abort word while they wait.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cuda/device.h"
#include "cuda/fifo_source.h"
#include "engine/execution.h"

namespace tutti {

// What is bound to a plan at launch.
struct DeviceBinding {
  const std::byte* in = nullptr;  // as the caller gave them
  std::byte* out = nullptr;
  BlockTable in_blocks, out_blocks;
  FoldSpec fold;
  uint64_t tile_bytes = 0;
  dev::Protocol protocol = dev::Protocol::simple;  // ll: only where no FIFO is proxied
  Stamp stamp;
  Nanoseconds timeout = 0;  // without progress, by which the kernel ends itself; 0: none
};

class DeviceExecution {
 public:
  // `event_descriptor`: see Device::launch. Errors: tuttiInvalidUsage for a plan of more lanes than fit.
  static Result<std::unique_ptr<DeviceExecution>> create(Plan plan, Collective collective, Rank nranks, Device& device,
                                                         FifoSource& fifos, int event_descriptor);
  ~DeviceExecution();

  // The previous operation must be finished. What goes wrong is told by poll().
  void start(const DeviceBinding& binding);
  // finished: the output is complete. An error ends the execution; asked again, it tells the error again.
  Result<Progress> poll();
  // Ends an operation under way; its communicator is then of no more use.
  void cancel();

  const std::optional<Execution::Mismatch>& mismatch() const { return mismatch_; }
  const Stamp& stamp() const { return stamp_; }
  const Grid& grid() const { return grid_; }
  std::vector<Execution::Wait> waits() const;

 private:
  DeviceExecution(Plan plan, Collective collective, Rank nranks, Device& device, int event_descriptor);
  Status lay_out(FifoSource& fifos);
  Result<std::vector<dev::DevicePeer>> peers_of(const Lane& lane, FifoSource& fifos) const;
  Status bind(const DeviceBinding& binding);
  dev::DeviceLayout layout_of(const BlockTable& blocks, uint32_t block_number, uint64_t* table) const;
  Status grow_scratch(uint64_t bytes);
  Status read_fault();
  uint64_t steps_done() const;

  // Memory of the device that this owns.
  struct Memory {
    Device& device;
    std::byte* data = nullptr;
    size_t bytes = 0;
    explicit Memory(Device& d) : device(d) {}
    Memory(const Memory&) = delete;
    ~Memory() { device.free(data); }
  };

  const Plan plan_;
  const Collective collective_;
  const Grid grid_;
  const Rank nranks_;
  Device& device_;
  const int event_descriptor_;
  uint32_t longest_span_ = 1;
  Memory program_, scratch_;  // of the device
  Memory shared_;             // pinned: the control block, then the tables of blocks
  dev::Control* control_ = nullptr;
  dev::Launch launch_;
  Stamp stamp_;
  std::unique_ptr<Running> running_;
  Status status_;
  uint64_t steps_seen_ = 0;
  std::optional<Execution::Mismatch> mismatch_;
};

}  // namespace tutti
