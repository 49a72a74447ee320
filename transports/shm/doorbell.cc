#include "transports/shm/doorbell.h"

#include <sys/socket.h>

#include <cstring>

namespace tutti::shm {

sockaddr_un doorbell_name(const Token& token) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  // sun_path[0] stays 0: the abstract namespace, which has no files and forgets the name with the socket. 128 random
  // bits cannot be guessed, so nobody can take the name first.
  char* out = name.sun_path + 1;
  std::memcpy(out, "tutti-", 6);
  out += 6;
  for (std::byte b : token) out = fmt::format_to(out, "{:02x}", static_cast<unsigned>(b));
  return name;
}

namespace {
// Abstract names count to the given length; all of ours are as long.
constexpr socklen_t kNameBytes = offsetof(sockaddr_un, sun_path) + 1 + 6 + 2 * sizeof(Token);
}  // namespace

Result<Doorbell> Doorbell::create(const Token& token) {
  Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket)
    return system_error("socket(AF_UNIX, SOCK_DGRAM)", errno, "is the limit of open files (ulimit -n) reached?");
  const sockaddr_un name = doorbell_name(token);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), kNameBytes) != 0)
    return system_error("bind(abstract Unix socket)", errno);
  // A ring that nobody has read yet occupies about 800 bytes of the ringer's send buffer: 1 MiB is enough for a
  // thousand sleepers. The kernel caps it at net.core.wmem_max, then some 500; a ring lost beyond that is made good by
  // the timeout of the sleeper's poll().
  const int send_bytes = 1 << 20;
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes);
  return Doorbell(std::move(socket));
}

void Doorbell::ring(const sockaddr_un& name) const {
  // EAGAIN: the sleeper's queue is full, so its socket is readable and it is awake already. ECONNREFUSED: it is gone.
  const char byte = 1;
  (void)::sendto(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&name),
                 kNameBytes);
}

void Doorbell::drain() const {
  // Bounded, so that a stranger who never stops writing cannot hold the rank here; the queue holds about 10.
  char bytes[16];
  for (int i = 0; i < 64 && ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT) >= 0; ++i) {
  }
}

}  // namespace tutti::shm
