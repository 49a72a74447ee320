// Connection: one established TCP connection. It carries frames both ways: what this rank sends to the peer on a channel
// and stripe, and what the peer sends back on the same.
//
// One connection for both directions saves a third of the work of a small message: TCP acknowledges what was received
// with the data that goes back. With one connection each way every message costs a bare acknowledgement as well, sent
// inside the receiver's recv() and handled inside the sender's next call. Between two cores that spin, one way of
// 32 bytes takes 11.5 us instead of 16.5 (7 instead of 11.5 where the cores share a cache), an exchange 15 instead of 18.
//
// Shared by the SendStripe that writes to it and the RecvChannel that reads from it, of one rank and thread; closed when
// both have let go.
#pragma once

#include <cstddef>
#include <string>

#include "base/fd.h"

namespace tutti::tcp {

class Connection {
 public:
  // `at`: the other end, "10.0.0.2:4711".
  Connection(Fd fd, std::string at) : fd_(std::move(fd)), at_(std::move(at)) {}
  // Discards what came and was not read: closing on unread bytes would reset the connection, and the reset would take
  // back what the kernel has not yet delivered to the peer.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const { return fd_.get(); }
  const std::string& at() const { return at_; }

  // The peer reads the end of the stream after all that was sent.
  void end_sending();
  // errno of what the kernel says broke the connection, 0 while nothing did. The kernel tells only once, this for ever.
  int error();

 private:
  const Fd fd_;
  const std::string at_;
  int error_ = 0;
};

}  // namespace tutti::tcp
