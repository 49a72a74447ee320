#include "transports/ucx/peer.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tutti::ucx {

PeerEnd::PeerEnd(Worker& worker, Rank self, Rank peer, std::vector<std::byte> address, int process, std::string description)
    : worker_(worker), self_(self), peer_(peer), address_(std::move(address)), description_(std::move(description)) {
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

// Makes the endpoint if need be.
Status PeerEnd::connected() {
  const Status made = endpoint_ ? Status() : connect();
  if (made.ok()) return {};
  look();
  if (gone_.ok()) gone_ = fail(tuttiRemoteError, "{} cannot be reached: {}", description_, made.message());
  return gone_;
}

Status PeerEnd::send(Pending& sending, const void* data, size_t bytes, uint64_t tag) {
  if (!gone_.ok()) return gone_;
  TUTTI_TRY(connected());
  const ucp_request_param_t parameters = sending.send_parameters();
  sending.started(ucp_tag_send_nbx(endpoint_, data, bytes, tag, &parameters));
  clean_ = asked_ = false;
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

void PeerEnd::listen(Pending& arriving, Kind kind) {
  const ucp_request_param_t parameters = arriving.receive_parameters();
  arriving.started(ucp_tag_recv_nbx(worker_.get(), &heard_, sizeof heard_, tag_of(kind, peer_), ~uint64_t{0}, &parameters));
}

void PeerEnd::say(Pending& sending, Kind kind) {
  const ucp_request_param_t parameters = sending.send_parameters();
  sending.started(ucp_tag_send_nbx(endpoint_, &word_, sizeof word_, tag_of(kind, self_), &parameters));
}

void PeerEnd::confirm() {
  if (clean_ || sending_ > 0 || !gone_.ok()) return;
  looks_ += looks_ < kMostLooks ? 1 : 0;
  if (asking_.under_way() || answer_.under_way()) return;
  if (asked_) {
    clean_ = true;
    return;
  }
  listen(answer_, Kind::answer);
  say(asking_, Kind::question);
  asked_ = true;
}

void PeerEnd::answer() {
  if (question_.under_way() || question_.failed() || answering_.under_way() || lost()) return;
  if (listening_) {
    if (!connected().ok()) return;
    say(answering_, Kind::answer);
  }
  listen(question_, Kind::question);
  listening_ = true;
}

void PeerEnd::stop_listening() {
  question_.cancel(worker_.get());
  answer_.cancel(worker_.get());
}

void PeerEnd::say_leaving() {
  (void)send(leaving_, &word_, sizeof word_, tag_of(Kind::leaving, self_));
}

}  // namespace tutti::ucx
