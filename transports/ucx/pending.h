// Pending: a call to UCX that may end later, and what it ended with.
#pragma once

#include <ucp/api/ucp.h>

namespace tutti::ucx {

// Must stay where it is while it is under way.
class Pending {
 public:
  Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  bool under_way() const { return request_ != nullptr; }
  bool failed() const { return status_ != UCS_OK; }
  ucs_status_t status() const { return status_; }

  // Parameters that report the end here.
  ucp_request_param_t send_parameters() {
    ucp_request_param_t parameters = common();
    parameters.cb.send = [](void* request, ucs_status_t status, void* self) { end(request, status, self); };
    return parameters;
  }
  ucp_request_param_t receive_parameters() {
    ucp_request_param_t parameters = common();
    parameters.cb.recv = [](void* request, ucs_status_t status, const ucp_tag_recv_info_t*, void* self) {
      end(request, status, self);
    };
    return parameters;
  }
  // What the call returned.
  void started(ucs_status_ptr_t request) {
    if (UCS_PTR_IS_PTR(request)) {
      if (status_ == UCS_INPROGRESS) request_ = request;
      return;
    }
    status_ = UCS_PTR_RAW_STATUS(request);
  }
  void cancel(ucp_worker_h worker) {
    if (request_) ucp_request_cancel(worker, request_);
  }

 private:
  ucp_request_param_t common() {
    status_ = UCS_INPROGRESS;
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE;
    parameters.datatype = ucp_dt_make_contig(1);
    parameters.user_data = this;
    return parameters;
  }
  static void end(void* request, ucs_status_t status, void* self) {
    auto& pending = *static_cast<Pending*>(self);
    pending.status_ = status;
    pending.request_ = nullptr;
    ucp_request_free(request);
  }

  void* request_ = nullptr;
  ucs_status_t status_ = UCS_OK;
};

}  // namespace tutti::ucx
