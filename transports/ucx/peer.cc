#include "transports/ucx/peer.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "transports/ucx/frames.h"

namespace tutti::ucx {

PeerEnd::PeerEnd(Worker& worker, Rank self, std::vector<std::byte> address, int process, std::string description)
    : worker_(worker), self_(self), address_(std::move(address)), description_(std::move(description)) {
  if (process > 0) process_.reset(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
}

Status PeerEnd::connect() {
  ucp_ep_params_t wanted{};
  wanted.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  wanted.address = reinterpret_cast<const ucp_address_t*>(address_.data());
  wanted.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  wanted.err_handler.arg = this;
  wanted.err_handler.cb = [](void* self_pointer, ucp_ep_h, ucs_status_t status) {
    auto& end = *static_cast<PeerEnd*>(self_pointer);
    if (end.gone_.ok())
      end.gone_ = fail(tuttiRemoteError, "{} has ended or cannot be reached: UCX says {}", end.description_,
                       ucs_status_string(status));
  };
  ucs_status_t status = ucp_ep_create(worker_.get(), &wanted, &endpoint_);
  if (status == UCS_ERR_UNREACHABLE && process_) {
    // UCX's shared memory cannot tell a lost peer, so it does not serve then; but here the peer's process can be watched.
    wanted.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    guarded_ = false;
    status = ucp_ep_create(worker_.get(), &wanted, &endpoint_);
  }
  if (status == UCS_OK) return {};
  endpoint_ = nullptr;
  return ucx_error("ucp_ep_create", status);
}

Status PeerEnd::send(Pending& sending, const void* data, size_t bytes, uint64_t tag) {
  if (!gone_.ok()) return gone_;
  if (const Status connected = endpoint_ ? Status() : connect(); !connected.ok()) {
    look();
    if (gone_.ok()) gone_ = fail(tuttiRemoteError, "{} cannot be reached: {}", description_, connected.message());
    return gone_;
  }
  const ucp_request_param_t parameters = sending.send_parameters();
  sending.started(ucp_tag_send_nbx(endpoint_, data, bytes, tag, &parameters));
  clean_ = flushing_ = false;
  looks_ = 0;
  return {};
}

void PeerEnd::close() {
  if (!endpoint_) return;
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_EP_CLOSE_FLAG_FORCE;
  ucs_status_ptr_t closing = ucp_ep_close_nbx(std::exchange(endpoint_, nullptr), &how);
  if (!UCS_PTR_IS_PTR(closing)) return;
  // By force it needs no peer: a few rounds of this worker end it.
  while (ucp_request_check_status(closing) == UCS_INPROGRESS) worker_.progress();
  ucp_request_free(closing);
}

void PeerEnd::has_left() {
  left_ = true;
  if (gone_.ok()) gone_ = fail(tuttiRemoteError, "{} has left", description_);
}

bool PeerEnd::process_ended() const {
  pollfd ended{process_.get(), POLLIN, 0};
  return process_ && ::poll(&ended, 1, 0) == 1;
}

void PeerEnd::look() {
  if (!gone_.ok() || !process_ended()) return;
  // What it sent before can still be had.
  constexpr int kMostRounds = 10'000;
  for (int i = 0; i < kMostRounds && worker_.progress(); ++i) continue;
  if (gone_.ok()) gone_ = fail(tuttiRemoteError, "{} has ended", description_);
}

void PeerEnd::failed_sending(ucs_status_t status) {
  if (gone_.ok())
    gone_ = fail(tuttiRemoteError, "sending to {}: {}", description_, ucx_error("ucp_tag_send_nbx", status).message());
}

void PeerEnd::flush() {
  if (clean_ || sending_ > 0) return;
  looks_ += looks_ < kMostLooks ? 1 : 0;
  if (flush_.under_way()) return;
  if (flushing_ || !gone_.ok() || !endpoint_) {
    clean_ = true;
    return;
  }
  ucp_request_param_t parameters = flush_.send_parameters();
  parameters.op_attr_mask &= ~static_cast<uint32_t>(UCP_OP_ATTR_FIELD_DATATYPE);
  flush_.started(ucp_ep_flush_nbx(endpoint_, &parameters));
  flushing_ = true;
  clean_ = !flush_.under_way();
}

void PeerEnd::say_leaving() {
  (void)send(leaving_, &word_, sizeof word_, tag_of(Kind::leaving, self_));
}

}  // namespace tutti::ucx
