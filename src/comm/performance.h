// Performance: one rank's plan on whatever memory it works: the host engine's Execution or a device's.
//
// What a communicator starts, polls and, when it fails, asks. One branch a call.
#pragma once

#include <memory>

#include "cuda/device_execution.h"
#include "engine/execution.h"

namespace tutti {

class Performance {
 public:
  explicit Performance(std::unique_ptr<Execution> execution) : host_(std::move(execution)) {}
  explicit Performance(std::unique_ptr<DeviceExecution> execution) : device_(std::move(execution)) {}

  Result<Progress> poll() { return host_ ? host_->poll() : device_->poll(); }
  // Ends what is under way and will never be polled again: a kernel must not outlive the call that failed.
  void cancel() {
    if (device_) device_->cancel();
  }
  const std::optional<Execution::Mismatch>& mismatch() const { return host_ ? host_->mismatch() : device_->mismatch(); }
  const Stamp& stamp() const { return host_ ? host_->stamp() : device_->stamp(); }
  const Grid& grid() const { return host_ ? host_->grid() : device_->grid(); }
  std::vector<Execution::Wait> waits() const { return host_ ? host_->waits() : device_->waits(); }

  // One of them is null.
  Execution* host() { return host_.get(); }
  DeviceExecution* device() { return device_.get(); }

 private:
  std::unique_ptr<Execution> host_;
  std::unique_ptr<DeviceExecution> device_;
};

}  // namespace tutti
