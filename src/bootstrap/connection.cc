#include "bootstrap/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>

namespace tutti {

Connection::Connection(Fd fd, size_t max_payload_bytes) : fd_(std::move(fd)), parser_(max_payload_bytes) {
  // Probes after 5 s of silence, every 5 s, three of them: 20 s. The user timeout says the same for unacknowledged
  // data, which otherwise is repeated for 15 minutes. All of these are refinements; a kernel without one still works.
  auto set = [this](int level, int option, int value) { ::setsockopt(fd_.get(), level, option, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
}

Connection::State Connection::receive() {
  std::array<std::byte, 64 << 10> piece;
  const ssize_t got = ::recv(fd_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
  if (got > 0) {
    parser_.append(wire::View(piece).first(static_cast<size_t>(got)));
    return State::open;
  }
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return State::open;
  end_reason_ = got == 0 ? 0 : errno;
  return State::ended;
}

void Connection::send(wire::SharedFrame frame) {
  unsent_.push_back(std::move(frame));
  flush();
}

void Connection::flush() {
  while (!unsent_.empty()) {
    const wire::Bytes& bytes = *unsent_.front();
    const ssize_t sent = ::send(fd_.get(), bytes.data() + sent_of_first_bytes_, bytes.size() - sent_of_first_bytes_,
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) {
      // Broken: the rest can go nowhere. What the peer said before is still to be read.
      unsent_.clear();
      sent_of_first_bytes_ = 0;
      return;
    }
    sent_of_first_bytes_ += static_cast<size_t>(sent);
    if (sent_of_first_bytes_ < bytes.size()) continue;
    unsent_.pop_front();
    sent_of_first_bytes_ = 0;
  }
}

void Connection::finish_sending() {
  ::shutdown(fd_.get(), SHUT_WR);
  std::array<std::byte, 64 << 10> ignored;
  while (::recv(fd_.get(), ignored.data(), ignored.size(), MSG_DONTWAIT) > 0) continue;
}

}  // namespace tutti
