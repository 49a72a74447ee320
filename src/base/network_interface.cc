#include "base/network_interface.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <memory>
#include <tuple>

namespace tutti {
namespace {

// sockaddr_storage may be read as the structure that its family names; memcpy says so without aliasing questions.
template <class Address>
Address as(const sockaddr_storage& storage) {
  Address address;
  std::memcpy(&address, &storage, sizeof address);
  return address;
}
template <class Address>
sockaddr_storage stored(const Address& address) {
  sockaddr_storage storage{};
  std::memcpy(&storage, &address, sizeof address);
  return storage;
}

bool is_link_local(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    const in6_addr ip = as<sockaddr_in6>(address).sin6_addr;
    return IN6_IS_ADDR_LINKLOCAL(&ip);
  }
  return ntohl(as<sockaddr_in>(address).sin_addr.s_addr) >> 16 == 0xa9fe;  // 169.254.0.0/16
}

bool allowed(const NetworkInterface& candidate, const Config& config) {
  const int family = candidate.address.ss_family;
  if (config.socket_family == AddressFamily::ipv4 && family != AF_INET) return false;
  if (config.socket_family == AddressFamily::ipv6 && family != AF_INET6) return false;
  return config.socket_ifname.allows(candidate.name) &&
         std::ranges::find(config.far_cards, candidate.name) == config.far_cards.end();
}

// The bits of a mask that are set, which are its first.
uint8_t prefix_of(const sockaddr* mask, int family) {
  if (mask == nullptr) return 0;
  int bits = 0;
  if (family == AF_INET6) {
    sockaddr_in6 six;
    std::memcpy(&six, mask, sizeof six);
    for (const uint8_t byte : six.sin6_addr.s6_addr) bits += std::popcount(byte);
  } else {
    sockaddr_in four;
    std::memcpy(&four, mask, sizeof four);
    bits = std::popcount(four.sin_addr.s_addr);
  }
  return static_cast<uint8_t>(bits);
}

// In Mb/s; 0: the kernel does not say (virtual and wireless ones). Not from /sys, which shows the network namespace
// that it was mounted in and not this process's.
uint32_t speed_of(const std::string& name) {
  const Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_cmd command{};
  command.cmd = ETHTOOL_GSET;
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&command);
  if (!fd || ::ioctl(fd.get(), SIOCETHTOOL, &request) != 0) return 0;
  const uint32_t mbit_s = ethtool_cmd_speed(&command);
  return mbit_s == static_cast<uint32_t>(SPEED_UNKNOWN) ? 0 : mbit_s;
}

// Tunnels and radio lead to the same hosts by a worse way than the cable does.
bool is_cable(const std::string& name) {
  constexpr std::array<std::string_view, 7> kOthers = {"wl", "tun", "tap", "wg", "ppp", "tailscale", "zt"};
  return std::ranges::none_of(kOthers, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Less is better. Where the user names interfaces, the order of the names is the first wish.
auto preference(const NetworkInterface& candidate, const Config& config) {
  constexpr std::array<std::string_view, 8> kBridges = {"docker", "veth",    "br-",  "virbr",
                                                        "cni",    "flannel", "cali", "lxc"};
  const InterfaceFilter& filter = config.socket_ifname;
  size_t wish = 0;
  if (!filter.exclude)
    while (wish < filter.names.size() &&
           !InterfaceFilter{false, filter.exact, {filter.names[wish]}}.allows(candidate.name))
      ++wish;
  const bool bridge = std::any_of(kBridges.begin(), kBridges.end(),
                                  [&](std::string_view prefix) { return candidate.name.starts_with(prefix); });
  const int kind = candidate.loopback ? 3 : bridge ? 2 : candidate.name.starts_with("ib") ? 0 : 1;
  return std::make_tuple(wish, kind, is_link_local(candidate.address), candidate.address.ss_family != AF_INET);
}

std::string list_text(std::span<const NetworkInterface> interfaces) {
  std::string text;
  for (const NetworkInterface& one : interfaces)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", one.name, address_text(one.address));
  return text.empty() ? "none" : text;
}

Status nothing_allowed(std::span<const NetworkInterface> interfaces, const Config& config) {
  std::string wishes;
  for (const ConfigVariable& variable : config_variables())
    if ((variable.name == "TUTTI_SOCKET_IFNAME" && !config.socket_ifname.names.empty()) ||
        (variable.name == "TUTTI_NET_LEVEL" && !config.far_cards.empty()) ||
        (variable.name == "TUTTI_SOCKET_FAMILY" && config.socket_family != AddressFamily::any))
      wishes += fmt::format("{}{}={}", wishes.empty() ? " fits " : " and ", variable.name, variable.show(config));
  return invalid_usage("no network interface that is up and has an address{}; there are: {}", wishes,
                       list_text(interfaces));
}

// Binds and listens on one port; `error_number` is the errno of a refusal.
Result<Listener> listen_on_port(sockaddr_storage address, uint16_t port, int& error_number) {
  // More than the 1000 ranks that may arrive together; the kernel caps it at net.core.somaxconn (4096).
  constexpr int kBacklog = 4096;
  set_port(address, port);
  Listener made;
  made.fd = Fd(::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  error_number = errno;
  if (!made.fd) return system_error("socket", error_number);
  // A port in TIME_WAIT from an earlier job is free; one that somebody listens on is still refused.
  const int on = 1, off = 0;
  ::setsockopt(made.fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.ss_family == AF_INET6) ::setsockopt(made.fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(made.fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes_of(address)) != 0 ||
      ::listen(made.fd.get(), kBacklog) != 0) {
    error_number = errno;
    return system_error(fmt::format("cannot listen on {}", endpoint_text(address)), error_number);
  }
  socklen_t bytes = sizeof made.address;
  if (::getsockname(made.fd.get(), reinterpret_cast<sockaddr*>(&made.address), &bytes) != 0)
    return system_error("getsockname", errno);
  return made;
}

}  // namespace

Result<std::vector<NetworkInterface>> list_interfaces() {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return system_error("getifaddrs", errno);
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(raw, &::freeifaddrs);
  std::vector<NetworkInterface> interfaces;
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_RUNNING) == 0)
      continue;
    NetworkInterface one{entry->ifa_name, {}, (entry->ifa_flags & IFF_LOOPBACK) != 0};
    const int family = entry->ifa_addr->sa_family;
    if (family == AF_INET)
      std::memcpy(&one.address, entry->ifa_addr, sizeof(sockaddr_in));
    else if (family == AF_INET6)
      std::memcpy(&one.address, entry->ifa_addr, sizeof(sockaddr_in6));
    else
      continue;
    one.prefix_bits = prefix_of(entry->ifa_netmask, family);
    interfaces.push_back(std::move(one));
  }
  return interfaces;
}

Result<NetworkInterface> choose_interface(const Config& config) {
  TUTTI_TRY_ASSIGN(const std::vector<NetworkInterface> interfaces, list_interfaces());
  return choose_interface_among(interfaces, config);
}

Result<std::vector<NetworkInterface>> choose_interfaces(const Config& config) {
  TUTTI_TRY_ASSIGN(const std::vector<NetworkInterface> interfaces, list_interfaces());
  TUTTI_TRY_ASSIGN(const NetworkInterface best, choose_interface_among(interfaces, config));
  // All but the user's wish, which every allowed one fulfils.
  const auto kind = [&](const NetworkInterface& each) {
    const auto [wish, of_kind, link_local, family] = preference(each, config);
    return std::tuple(of_kind, link_local, family);
  };
  std::vector<NetworkInterface> chosen = {best};
  const bool named = !config.socket_ifname.names.empty() && !config.socket_ifname.exclude;
  uint32_t fastest = speed_of(best.name);
  for (const NetworkInterface& each : interfaces) {
    if (best.loopback || !allowed(each, config) || kind(each) != kind(best)) continue;
    if (!named && !is_cable(each.name)) continue;
    if (std::ranges::find(chosen, each.name, &NetworkInterface::name) != chosen.end()) continue;
    fastest = std::max(fastest, speed_of(each.name));
    chosen.push_back(each);
  }
  std::erase_if(chosen, [&](const NetworkInterface& each) {
    const uint32_t speed = speed_of(each.name);
    return each.name != best.name && speed > 0 && speed < fastest / 2;
  });
  return chosen;
}

Result<NetworkInterface> choose_interface_among(std::span<const NetworkInterface> interfaces, const Config& config) {
  const NetworkInterface* best = nullptr;
  for (const NetworkInterface& candidate : interfaces)
    if (allowed(candidate, config) && (!best || preference(candidate, config) < preference(*best, config)))
      best = &candidate;
  if (!best) return nothing_allowed(interfaces, config);
  return *best;
}

std::string address_text(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    const in_addr ip = as<sockaddr_in>(address).sin_addr;
    return ::inet_ntop(AF_INET, &ip, text, sizeof text);
  }
  if (address.ss_family != AF_INET6) return "(no address)";
  const auto ipv6 = as<sockaddr_in6>(address);
  std::string out = ::inet_ntop(AF_INET6, &ipv6.sin6_addr, text, sizeof text);
  char name[IF_NAMESIZE] = {};
  if (ipv6.sin6_scope_id != 0)
    out += fmt::format("%{}", ::if_indextoname(ipv6.sin6_scope_id, name) ? name : std::to_string(ipv6.sin6_scope_id));
  return out;
}

std::string endpoint_text(const sockaddr_storage& address) {
  const std::string host = address_text(address);
  const uint16_t port = port_of(address);
  return address.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<sockaddr_storage> parse_address(std::string_view text, uint16_t port) {
  sockaddr_in ipv4{};
  ipv4.sin_family = AF_INET;
  ipv4.sin_port = htons(port);
  if (::inet_pton(AF_INET, std::string(text).c_str(), &ipv4.sin_addr) == 1) return stored(ipv4);

  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_port = htons(port);
  const size_t percent = text.find('%');
  if (::inet_pton(AF_INET6, std::string(text.substr(0, percent)).c_str(), &ipv6.sin6_addr) != 1)
    return invalid_argument("'{}' is not a numeric address like 192.0.2.1, 2001:db8::1 or fe80::1%eth0", text);
  if (percent == std::string_view::npos) return stored(ipv6);
  const std::string scope(text.substr(percent + 1));
  ipv6.sin6_scope_id = ::if_nametoindex(scope.c_str());
  if (ipv6.sin6_scope_id == 0) {
    const auto [end, error] = std::from_chars(scope.data(), scope.data() + scope.size(), ipv6.sin6_scope_id);
    if (error != std::errc() || end != scope.data() + scope.size() || scope.empty())
      return invalid_argument("'{}' names the interface '{}', which does not exist here", text, scope);
  }
  return stored(ipv6);
}

uint16_t port_of(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6 ? as<sockaddr_in6>(address).sin6_port : as<sockaddr_in>(address).sin_port);
}

void set_port(sockaddr_storage& address, uint16_t port) {
  if (address.ss_family == AF_INET6) {
    auto ipv6 = as<sockaddr_in6>(address);
    ipv6.sin6_port = htons(port);
    address = stored(ipv6);
  } else {
    auto ipv4 = as<sockaddr_in>(address);
    ipv4.sin_port = htons(port);
    address = stored(ipv4);
  }
}

socklen_t bytes_of(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

Result<Listener> listen_tcp(const sockaddr_storage& address, PortRange ports) {
  for (uint32_t port = ports.first; port <= ports.last; ++port) {
    int error_number = 0;
    Result<Listener> listener = listen_on_port(address, static_cast<uint16_t>(port), error_number);
    // Taken, or reserved for root: the next may do. Any other failure would repeat itself.
    if (listener.ok() || (error_number != EADDRINUSE && error_number != EACCES)) return listener;
  }
  return fail(tuttiSystemError,
              "cannot listen on {}: every port from {} to {} is taken or not permitted; give a wider or another range, "
              "for example with TUTTI_PORT_RANGE, or end what holds them (ss -ltnp shows it)",
              address_text(address), ports.first, ports.last);
}

}  // namespace tutti
