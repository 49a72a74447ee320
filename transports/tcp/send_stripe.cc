#include "transports/tcp/send_stripe.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/network_interface.h"

namespace tutti::tcp {
namespace {

// One sendmsg takes no more than this, so that a rank that sends much still gets to receive: neighbours in a ring would
// otherwise feed each other in turns.
constexpr size_t kMaxWriteBytes = 1024 * 1024;
constexpr size_t kMaxGather = 64;
constexpr Nanoseconds kFirstPause = 5 * kMillisecond, kLongestPause = 250 * kMillisecond;
// A copy larger than this is freed once it is sent.
constexpr size_t kKeptCopyBytes = 4096;

// The host may come back or the route heal; anything else will not get better by waiting.
bool may_pass(int error_number) {
  return error_number == ECONNREFUSED || error_number == ETIMEDOUT || error_number == EHOSTUNREACH ||
         error_number == ENETUNREACH || error_number == ECONNRESET || error_number == EADDRNOTAVAIL ||
         error_number == EAGAIN;
}

// A port of a dead listener may be picked as the local port of the very attempt to reach it, and TCP then connects the
// socket with itself.
bool connected_to_itself(int fd, const sockaddr_storage& remote) {
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) != 0) return false;
  return endpoint_text(local) == endpoint_text(remote);
}

}  // namespace

SendStripe::~SendStripe() {
  if (connection_) connection_->end_sending();
}

Status SendStripe::give_up(Status status) {
  fd_.reset();
  connection_.reset();
  next_.reset();
  status_ = std::move(status);
  return status_;
}

void SendStripe::offer(std::shared_ptr<Connection> connection, const Answers& answers, bool then_move) {
  if (!status_.ok() || adopted_) return;
  if (opening_sent_ == 0) {
    adopt(std::move(connection), answers.plain);
  } else if (then_move) {
    next_ = std::move(connection);
    next_opening_ = answers.after_move;
  }
}

void SendStripe::adopt(std::shared_ptr<Connection> connection, const HelloBytes& answer) {
  fd_.reset();
  if (connection_ && opening_sent_ > 0) connection_->end_sending();
  connection_ = std::move(connection);
  made_.reset();
  adopted_ = true;
  opening_ = answer;
  opening_sent_ = 0;
}

bool SendStripe::send_small(const FrameHeader& header, std::span<const ConstPiece> pieces, size_t bytes) {
  if (!status_.ok() || !connection_ || count_ > 0 || opening_sent_ < kHelloBytes || next_) return false;
  std::array<std::byte, sizeof header + kSmallBytes> frame;
  std::memcpy(frame.data(), &header, sizeof header);
  size_t end = sizeof header;
  for (const ConstPiece& piece : pieces) {
    if (piece.bytes == 0) continue;
    std::memcpy(frame.data() + end, piece.data, piece.bytes);
    end += piece.bytes;
  }
  used_ = true;
  const ssize_t sent = ::send(connection_->fd(), frame.data(), end, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(end)) return true;
  if (sent < 0 && errno != EAGAIN && errno != EINTR) {
    (void)give_up(connection_error(name(), "send", errno));
    return false;
  }
  if (sent <= 0) return false;
  const ConstPiece whole{frame.data() + sizeof header, bytes};
  push(header, {&whole, 1}, 0, bytes, 0);
  consume(static_cast<size_t>(sent));
  detach();
  return true;
}

// The entries of `unsent` point into the part itself, which therefore never moves: parts_ is a ring in place.
SendStripe::Part& SendStripe::add_part(const FrameHeader& header) {
  Part& added = part(count_++);
  added.header = header;
  added.borrowed = false;
  added.first = 0;
  added.unsent.clear();
  added.unsent.push_back({&added.header, sizeof added.header});
  return added;
}

void SendStripe::push(const FrameHeader& header, std::span<const ConstPiece> pieces, size_t offset, size_t bytes,
                      uint64_t message) {
  if (next_ && count_ == 0) add_part({.magic = FrameHeader::kMoveMagic});
  Part& added = add_part(header);
  used_ = true;
  added.message = message;
  added.borrowed = bytes > 0;
  for (const ConstPiece& piece : pieces) {
    if (bytes == 0) break;
    if (offset >= piece.bytes) {
      offset -= piece.bytes;
      continue;
    }
    const size_t take = std::min(bytes, piece.bytes - offset);
    added.unsent.push_back({const_cast<std::byte*>(piece.data) + offset, take});
    offset = 0;
    bytes -= take;
  }
}

Status SendStripe::advance() {
  if (!status_.ok()) return status_;
  if (!connection_) TUTTI_TRY(connect());
  if (!connection_ || idle()) return Status::success();
  const Connection* const before = connection_.get();
  TUTTI_TRY(write());
  return connection_.get() != before && !idle() ? write() : Status::success();
}

Status SendStripe::connect() {
  if (!fd_) {
    const Nanoseconds now = steady_now();
    if (now < retry_at_) return Status::success();
    if (first_try_ == 0) first_try_ = now;
    auto made = make_connection_socket(peer_.address.ss_family, peer_.same_host, settings_);
    if (!made.ok()) return give_up(made.status().within(name()));
    fd_ = std::move(*made);
    const auto* const to = reinterpret_cast<const sockaddr*>(&peer_.address);
    if (::connect(fd_.get(), to, bytes_of(peer_.address)) != 0 && errno != EINPROGRESS && errno != EINTR) {
      return connect_failed("connect", errno);
    }
  }
  sockaddr_storage remote{};
  socklen_t length = sizeof remote;
  if (::getpeername(fd_.get(), reinterpret_cast<sockaddr*>(&remote), &length) == 0) {
    if (connected_to_itself(fd_.get(), remote)) return connect_failed("connect", ECONNREFUSED);
    connection_ = made_ = std::make_shared<Connection>(std::move(fd_), endpoint_text(peer_.address));
    return Status::success();
  }
  int error = 0;
  length = sizeof error;
  ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return connect_failed("connect", error);
  if (steady_now() - first_try_ < settings_.timeout) return Status::success();
  return connect_failed("connect", ETIMEDOUT);
}

Status SendStripe::connect_failed(std::string_view call, int error_number) {
  fd_.reset();
  const Nanoseconds now = steady_now();
  const Nanoseconds waited = now - first_try_;
  // The listener was there before its address was handed out. A refusal that lasts means that the process is gone.
  const Nanoseconds patience = error_number == ECONNREFUSED
                                   ? std::min(settings_.options.refusal_patience, settings_.timeout)
                                   : settings_.timeout;
  if (may_pass(error_number) && waited < patience) {
    pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
    retry_at_ = now + pause_;
    return Status::success();
  }
  const std::string what = fmt::format("{}, tried for {:.1f} s", name(), static_cast<double>(waited) / kSecond);
  if (error_number == ECONNREFUSED) {
    return give_up(fail(tuttiRemoteError,
                        "{}: connect: Connection refused (ECONNREFUSED); the process has exited, or a "
                        "firewall rejects the port (TUTTI_PORT_RANGE chooses ports)",
                        what));
  }
  if (error_number == ETIMEDOUT) {
    return give_up(
        fail(tuttiRemoteError,
             "{}: connect: no answer (ETIMEDOUT); a firewall swallows it, or that address "
             "cannot be reached from here (TUTTI_SOCKET_IFNAME chooses the interface, TUTTI_PORT_RANGE ports)",
             what));
  }
  return give_up(connection_error(what, call, error_number));
}

Status SendStripe::write() {
  std::array<iovec, kMaxGather> gather;
  size_t entries = 0, bytes = 0;
  if (opening_sent_ < kHelloBytes) gather[entries++] = {opening_.data() + opening_sent_, kHelloBytes - opening_sent_};
  for (size_t i = 0; i < count_ && entries < kMaxGather && bytes < kMaxWriteBytes; ++i) {
    const Part& from = part(i);
    for (size_t k = from.first; k < from.unsent.size() && entries < kMaxGather && bytes < kMaxWriteBytes; ++k) {
      gather[entries] = from.unsent[k];
      gather[entries].iov_len = std::min(gather[entries].iov_len, kMaxWriteBytes - bytes);
      bytes += gather[entries++].iov_len;
    }
    if (from.header.magic == FrameHeader::kMoveMagic) break;  // what follows goes another way
  }
  const msghdr message{.msg_iov = gather.data(), .msg_iovlen = entries};
  const ssize_t sent = ::sendmsg(connection_->fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) {
    consume(static_cast<size_t>(sent));
    return Status::success();
  }
  if (errno == EAGAIN || errno == EINTR) return Status::success();
  return give_up(connection_error(name(), "sendmsg", errno));
}

void SendStripe::consume(size_t bytes) {
  const size_t opening = std::min(bytes, kHelloBytes - opening_sent_);
  opening_sent_ += opening;
  bytes -= opening;
  while (count_ > 0) {
    Part& front = part(0);
    while (front.first < front.unsent.size()) {
      iovec& entry = front.unsent[front.first];
      const size_t taken = std::min(bytes, entry.iov_len);
      entry.iov_base = static_cast<std::byte*>(entry.iov_base) + taken;
      entry.iov_len -= taken;
      bytes -= taken;
      if (entry.iov_len > 0) return;
      ++front.first;
    }
    pop();
  }
}

void SendStripe::pop() {
  Part& front = part(0);
  if (front.header.magic == FrameHeader::kMoveMagic) adopt(std::move(next_), next_opening_);
  if (front.copy.capacity() > kKeptCopyBytes) std::vector<std::byte>().swap(front.copy);
  head_ = (head_ + 1) % parts_.size();
  --count_;
}

uint64_t SendStripe::first_borrowed(uint64_t none) const {
  for (size_t i = 0; i < count_; ++i) {
    if (part(i).borrowed) return part(i).message;
  }
  return none;
}

void SendStripe::detach(size_t up_to_bytes) {
  for (size_t i = 0; i < count_; ++i) {
    Part& each = part(i);
    if (!each.borrowed) continue;
    // Entry 0 is the header, which lies in the part.
    const size_t first = std::max<size_t>(each.first, 1);
    size_t bytes = 0;
    for (size_t k = first; k < each.unsent.size(); ++k) bytes += each.unsent[k].iov_len;
    if (bytes > up_to_bytes) continue;
    each.copy.resize(bytes);
    size_t at = 0;
    for (size_t k = first; k < each.unsent.size(); ++k) {
      std::memcpy(each.copy.data() + at, each.unsent[k].iov_base, each.unsent[k].iov_len);
      at += each.unsent[k].iov_len;
    }
    each.unsent.resize(first);
    if (bytes > 0) each.unsent.push_back({each.copy.data(), bytes});
    each.borrowed = false;
  }
}

bool SendStripe::check_broken() {
  if (!connection_) return true;
  const int error = connection_->error();
  if (error != 0) (void)give_up(connection_error(name(), "the connection broke", error));
  return error == 0 || !used_;
}

}  // namespace tutti::tcp
