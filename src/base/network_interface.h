// Network interfaces and socket addresses: which address this process is reached at, and the text form of addresses.
//
// Used by the rendezvous and by every transport that opens sockets, so that all of them choose alike. Thread-safe, no
// state; each listing reads the kernel's table (about 50 us).
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/fd.h"
#include "base/status.h"

namespace tutti {

// One address of one interface; an interface with several addresses appears several times.
struct NetworkInterface {
  std::string name;
  sockaddr_storage address{};  // IPv4 or IPv6, port 0; a link-local IPv6 address has its scope
  bool loopback = false;
  uint8_t prefix_bits = 0;  // of the address, those that name the network; 0: not known
};

// All IPv4 and IPv6 addresses of interfaces that are up and running, in the kernel's order.
Result<std::vector<NetworkInterface>> list_interfaces();

// The one to use: allowed by TUTTI_SOCKET_IFNAME and TUTTI_SOCKET_FAMILY; the earlier in TUTTI_SOCKET_IFNAME's list,
// the better; then InfiniBand (ib*) before others before container bridges (docker*, veth*, ...) before loopback; IPv4
// before IPv6 before link-local addresses. tuttiInvalidUsage listing what exists when nothing is allowed.
Result<NetworkInterface> choose_interface(const Config& config);
// All that are as good as that one, which comes first: of its kind and family, no tunnel and no radio unless named, and,
// where the kernel tells speeds, at least half as fast as the fastest; the first address of each.
Result<std::vector<NetworkInterface>> choose_interfaces(const Config& config);
Result<NetworkInterface> choose_interface_among(std::span<const NetworkInterface> interfaces, const Config& config);

// "192.0.2.1", "2001:db8::1", "fe80::1%eth0".
std::string address_text(const sockaddr_storage& address);
// With the port: "192.0.2.1:80", "[fe80::1%eth0]:80".
std::string endpoint_text(const sockaddr_storage& address);
// The inverse of address_text; never asks a name server. tuttiInvalidArgument when it is not a numeric address.
Result<sockaddr_storage> parse_address(std::string_view text, uint16_t port);

uint16_t port_of(const sockaddr_storage& address);
void set_port(sockaddr_storage& address, uint16_t port);
// What bind() and connect() want as the length.
socklen_t bytes_of(const sockaddr_storage& address);

// A non-blocking, close-on-exec TCP socket that listens.
struct Listener {
  Fd fd;
  sockaddr_storage address{};  // with the port that it got
};
// Takes the first free port of the range (0-0: any). An unspecified IPv6 address (::) serves IPv4 too. When all are
// taken, tuttiSystemError says the range and what to try.
Result<Listener> listen_tcp(const sockaddr_storage& address, PortRange ports);

}  // namespace tutti
