// Doorbell: a datagram socket that a rank sleeps on in poll() and that its peers ring.
//
// A ring carries no information but "look again", so that one too many (or a stranger's) does no harm.
#pragma once

#include <sys/un.h>

#include "base/fd.h"
#include "base/status.h"
#include "transports/shm/layout.h"

namespace tutti::shm {

// The abstract Unix socket name that belongs to a token.
sockaddr_un doorbell_name(const Token& token);

class Doorbell {
 public:
  static Result<Doorbell> create(const Token& token);
  int descriptor() const { return socket_.get(); }
  // Wakes the owner of `name`. Never blocks; a peer that is gone is ignored. About 1.5 us.
  void ring(const sockaddr_un& name) const;
  // Forgets the rings so far.
  void drain() const;

 private:
  explicit Doorbell(Fd socket) : socket_(std::move(socket)) {}
  Fd socket_;
};

}  // namespace tutti::shm
