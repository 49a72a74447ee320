// Worker: UCX's context and worker of one rank.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "transports/transport.h"

namespace tutti::ucx {

// "... failed: REASON; what UCX said last", with what may be done about it.
Status ucx_error(std::string_view call, ucs_status_t status);

class Worker {
 public:
  static Result<std::unique_ptr<Worker>> create();
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ucp_worker_h get() const { return worker_; }
  // True when something has moved.
  bool progress() { return ucp_worker_progress(worker_) != 0; }
  std::vector<std::byte> address() const;
  int descriptor() const { return descriptor_; }
  // False when there is news already.
  bool arm() { return ucp_worker_arm(worker_) == UCS_OK; }

 private:
  Worker() = default;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;  // the worker's
};

}  // namespace tutti::ucx
