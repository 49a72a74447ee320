// Connection: one non-blocking TCP socket that carries frames, from either side's point of view.
//
// Not thread-safe; Control guards the sending half with a mutex of its own (sending and receiving touch different
// fields).
#pragma once

#include <deque>

#include "base/fd.h"
#include "bootstrap/wire.h"

namespace tutti {

class Connection {
 public:
  // Takes over a connected socket (or one that is connecting) and sets what a control connection needs: no delay for
  // small frames, and about 20 s until a vanished host is noticed.
  Connection(Fd fd, size_t max_payload_bytes);

  int descriptor() const { return fd_.get(); }

  // One recv. `open`: something or nothing came; `ended`: the peer closed or the connection broke (see end_reason()).
  enum class State : uint8_t { open, ended };
  State receive();
  // The next frame that has come whole; an error when the peer does not speak our language.
  Result<std::optional<wire::Frame>> next_frame() { return parser_.next(); }
  void set_max_payload_bytes(size_t bytes) { parser_.set_max_payload_bytes(bytes); }
  // errno of a broken connection, 0 for a plain end of file.
  int end_reason() const { return end_reason_; }

  // Queues and sends as much as the socket takes. A broken connection is noticed by receive(), not here.
  void send(wire::SharedFrame frame);
  void flush();
  bool has_unsent() const { return !unsent_.empty(); }

  // Says that nothing more will be sent, and reads off what has come: a socket that is closed with unread bytes resets
  // the connection and may take our last frames with it.
  void finish_sending();
  void close() { fd_.reset(); }

 private:
  Fd fd_;
  wire::FrameParser parser_;
  std::deque<wire::SharedFrame> unsent_;
  size_t sent_of_first_bytes_ = 0;
  int end_reason_ = 0;
};

}  // namespace tutti
