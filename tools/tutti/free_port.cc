#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <cstdint>
#include <fstream>

#include "base/fd.h"
#include "base/rng.h"
#include "tutti/run.h"

namespace tutti::run {
namespace {

constexpr int kPortsInARow = 8;
constexpr int kLeastPort = 15000;

bool can_bind(int port) {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return false;
  const int on = 1;  // as a listener would: a port in TIME_WAIT is free
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

// Ports from here on are handed out to outgoing connections, so one that is free now may be taken a moment later.
int first_ephemeral_port() {
  int first = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  return first > kLeastPort + 1000 && first < 65536 ? first : 65536;
}

}  // namespace

Result<int> free_port() {
  uint64_t seed = 0;
  if (::getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) return system_error("getrandom", errno);
  Rng rng(seed);
  constexpr int kTries = 200;
  const int last = first_ephemeral_port() - kPortsInARow;
  for (int i = 0; i < kTries; ++i) {
    const int port = kLeastPort + static_cast<int>(rng.below(static_cast<uint64_t>(last - kLeastPort)));
    int in_a_row = 0;
    while (in_a_row < kPortsInARow && can_bind(port + in_a_row)) ++in_a_row;
    if (in_a_row == kPortsInARow) return port;
  }
  return invalid_usage("no {} free TCP ports in a row on 127.0.0.1; give one with --env MASTER_PORT=N", kPortsInARow);
}

}  // namespace tutti::run
