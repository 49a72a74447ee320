#include "transports/tcp/connection.h"

#include <sys/socket.h>

namespace tutti::tcp {

Connection::~Connection() {
  // A peer that never stops sending must not keep this rank here.
  constexpr int kDiscards = 64;
  constexpr size_t kDiscardBytes = size_t{1} << 20;
  // MSG_TRUNC: the bytes are dropped in the kernel, not stored.
  for (int i = 0; i < kDiscards && ::recv(fd_.get(), nullptr, kDiscardBytes, MSG_DONTWAIT | MSG_TRUNC) > 0; ++i) {
  }
}

void Connection::end_sending() { ::shutdown(fd_.get(), SHUT_WR); }

int Connection::error() {
  if (error_ == 0) {
    socklen_t length = sizeof error_;
    ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error_, &length);
  }
  return error_;
}

}  // namespace tutti::tcp
