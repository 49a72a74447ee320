#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "base/fd.h"
#include "base/network_interface.h"
#include "base/rng.h"
#include "tutti/run.h"

namespace tutti::run {
namespace {

constexpr int kPortsInARow = 8;
constexpr int kLeastPort = 15000;

// 0, or the errno of bind(). Port 0: any, so only the address is tried.
int bind_to(const sockaddr_storage& loopback, int port) {
  const Fd socket(::socket(loopback.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno;
  const int on = 1;  // as a listener would: a port in TIME_WAIT is free
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_storage address = loopback;
  set_port(address, static_cast<uint16_t>(port));
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes_of(address)) == 0 ? 0 : errno;
}

// 0, or the errno with which the ranks would fail. A port may be bound on an interface that is down, but nobody comes
// there; whether there is a way is what connecting a UDP socket asks, which sends nothing.
int meet_on(const sockaddr_storage& address) {
  if (const int error = bind_to(address, 0); error != 0) return error;
  const Fd socket(::socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage anywhere = address;
  set_port(anywhere, 9);
  const auto* raw = reinterpret_cast<const sockaddr*>(&anywhere);
  return socket && ::connect(socket.get(), raw, bytes_of(anywhere)) == 0 ? 0 : errno;
}

// Ports from here on are handed out to outgoing connections, so one that is free now may be taken a moment later.
int first_ephemeral_port() {
  int first = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  return first > kLeastPort + 1000 && first < 65536 ? first : 65536;
}

Result<int> free_port(const sockaddr_storage& address) {
  uint64_t seed = 0;
  if (::getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) return system_error("getrandom", errno);
  Rng rng(seed);
  constexpr int kTries = 200;
  const int last = first_ephemeral_port() - kPortsInARow;
  for (int i = 0; i < kTries; ++i) {
    const int port = kLeastPort + static_cast<int>(rng.below(static_cast<uint64_t>(last - kLeastPort)));
    int in_a_row = 0;
    while (in_a_row < kPortsInARow && bind_to(address, port + in_a_row) == 0) ++in_a_row;
    if (in_a_row == kPortsInARow) return port;
  }
  return invalid_usage("no {} free TCP ports in a row on {}; give one with --env MASTER_PORT=N", kPortsInARow,
                       address_text(address));
}

}  // namespace

Result<LocalMeeting> local_meeting(const std::string& wanted) {
  std::string reasons;
  for (const std::string& host : wanted.empty() ? std::vector<std::string>{"127.0.0.1", "::1"} : std::vector{wanted}) {
    const Result<sockaddr_storage> address = parse_address(host == "localhost" ? "127.0.0.1" : host, 0);
    const int error = address.ok() ? meet_on(address.value()) : 0;
    if (address.ok() && error == 0) {
      TUTTI_TRY_ASSIGN(const int port, free_port(address.value()));
      return LocalMeeting{host, port};
    }
    if (!wanted.empty())
      return invalid_usage(
          "MASTER_ADDR is {}, which is no numeric address of this host; give a port too, with --env "
          "MASTER_PORT=N",
          wanted);
    reasons += fmt::format("{}{} ({})", reasons.empty() ? "" : " nor ", host, strerrorname_np(error));
  }
  return fail(tuttiSystemError, "the ranks cannot meet on {}; is loopback up (ip link set lo up)?", reasons);
}

}  // namespace tutti::run
