#include "transports/tcp/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace tutti::tcp {
namespace {

// Options are wishes: a kernel that lacks one still carries the bytes.
void set_option(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

bool set_congestion(int fd, std::string_view name) {
  return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
}

// A host that vanishes without a word (power, cable) is noticed on an idle connection within 3/4 of the timeout: a
// first probe after 1/4 and eight more in the next half. TCP_USER_TIMEOUT is left alone: it would also end connections
// whose receiver is alive but has not read for that long, and a rank may compute for as long as it likes between two
// operations.
void set_keepalive(int fd, Nanoseconds timeout) {
  constexpr int kProbes = 8;
  const auto seconds = static_cast<int>(std::min<Nanoseconds>(timeout / kSecond, 4 * 3600));
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 4));
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 2 / kProbes));
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

std::string_view advice_for(int error_number) {
  switch (error_number) {
    case ECONNRESET:
    case EPIPE:
      return "the other process has exited or was killed; its output says why";
    case ETIMEDOUT:
      return "its host does not answer any more";
    case EHOSTUNREACH:
    case ENETUNREACH:
      return "there is no route to that address; TUTTI_SOCKET_IFNAME chooses another interface";
    case EACCES:
    case EPERM:
      return "a firewall rule or a privileged port (below 1024) forbids it; TUTTI_PORT_RANGE chooses other ports";
    case EADDRNOTAVAIL:
      return "the interface has lost that address, or this host has no local port left";
    case ENOBUFS:
    case ENOMEM:
      return "the kernel is out of memory for sockets";
    default:
      return {};
  }
}

}  // namespace

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  return (ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24) == 127;
}

bool is_link_local(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

Status socket_error(std::string_view call, int error_number, size_t descriptors_wanted) {
  if (error_number != EMFILE) return system_error(call, error_number, advice_for(error_number));
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return system_error(
      call, error_number,
      fmt::format("this process may open {} descriptors, and links to and from every rank take about {}; "
                  "raise the limit (`ulimit -n {}`), or use TUTTI_ALGO=ring, which links each rank to "
                  "two others only",
                  limit.rlim_cur, descriptors_wanted, std::max<size_t>(descriptors_wanted + 64, 2 * limit.rlim_cur)));
}

Status connection_error(std::string_view connection, std::string_view call, int error_number) {
  const Status error = system_error(call, error_number, advice_for(error_number));
  return Status(tuttiRemoteError, fmt::format("{}: {}", connection, error.message()));
}

void set_connection_options(int fd, bool same_host, const ConnectionSettings& settings) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_keepalive(fd, settings.timeout);
  if (settings.options.send_buffer_bytes > 0) set_option(fd, SOL_SOCKET, SO_SNDBUF, settings.options.send_buffer_bytes);
  if (settings.options.receive_buffer_bytes > 0) {
    set_option(fd, SOL_SOCKET, SO_RCVBUF, settings.options.receive_buffer_bytes);
  }
  // Inside a host there is no congestion to control, and pacing only costs: 64 MiB in 256 KiB messages over loopback go
  // at 4.9 GB/s with bbr and at 6.1 GB/s with cubic. On a network the host's own choice stands.
  if (!settings.congestion.empty()) {
    set_congestion(fd, settings.congestion);
  } else if (same_host) {
    set_congestion(fd, "cubic");
  }
}

Status check_congestion(const std::string& name) {
  if (name.empty()) return Status::success();
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd || set_congestion(fd.get(), name)) return Status::success();
  const int error = errno;
  std::string available;
  std::ifstream file("/proc/sys/net/ipv4/tcp_available_congestion_control");
  std::getline(file, available);
  return invalid_usage("TUTTI_SOCKET_CONGESTION={}: {}; this kernel has {}", name, std::strerror(error), available);
}

Result<Fd> make_connection_socket(int family, bool same_host, const ConnectionSettings& settings) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd) return socket_error("socket", errno, settings.descriptors_wanted);
  set_connection_options(fd.get(), same_host, settings);
  return fd;
}

}  // namespace tutti::tcp
