#include "transports/tcp/rails.h"

#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "base/fd.h"
#include "transports/tcp/sockets.h"

namespace tutti::tcp {
namespace {

// A refusal comes from a host that is there: its listener is not open yet, or no longer.
bool is_answer(int error_number) { return error_number == 0 || error_number == ECONNREFUSED; }

// An attempt to connect: under way while `fd` is valid.
struct Attempt {
  Fd fd;
  bool answered = false;
};

Attempt attempt(const Rail& rail) {
  Attempt made{Fd(::socket(rail.socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0))};
  if (!made.fd) return {Fd(), true};  // being out of descriptors says nothing about the network
  const int result = ::connect(made.fd.get(), reinterpret_cast<const sockaddr*>(&rail.socket), bytes_of(rail.socket));
  const int error_number = result == 0 ? 0 : errno;
  if (error_number == EINPROGRESS) return made;
  return {Fd(), is_answer(error_number)};
}

void look(Attempt& each, const pollfd& event) {
  if (!each.fd || event.revents == 0) return;
  int error_number = 0;
  socklen_t length = sizeof error_number;
  ::getsockopt(each.fd.get(), SOL_SOCKET, SO_ERROR, &error_number, &length);
  each.answered = is_answer(error_number);
  each.fd.reset();
}

}  // namespace

Network network_of(const Rail& rail) {
  Network network{rail.socket.ss_family, rail.prefix_bits, {}};
  if (network.family == AF_INET6)
    std::memcpy(network.number.data(), &reinterpret_cast<const sockaddr_in6&>(rail.socket).sin6_addr, 16);
  else
    std::memcpy(network.number.data(), &reinterpret_cast<const sockaddr_in&>(rail.socket).sin_addr, 4);
  for (size_t byte = 0; byte < network.number.size(); ++byte) {
    const int kept = std::clamp(rail.prefix_bits - static_cast<int>(8 * byte), 0, 8);
    network.number[byte] &= static_cast<uint8_t>(0xff00 >> kept);
  }
  return network;
}

std::vector<Rail> shared_rails(std::span<const Rail> own, std::span<const Rail> theirs) {
  std::map<Network, const Rail*> shared;
  for (const Rail& rail : theirs) {
    if (rail.prefix_bits == 0 || is_link_local(rail.socket)) continue;
    const Network network = network_of(rail);
    if (std::ranges::any_of(own, [&](const Rail& mine) { return network_of(mine) == network; }))
      shared.emplace(network, &rail);
  }
  std::vector<Rail> rails;
  for (const auto& [network, rail] : shared) rails.push_back(*rail);
  return rails;
}

std::vector<bool> reachable(std::span<const Rail> rails, Nanoseconds patience) {
  std::vector<Attempt> attempts;
  for (const Rail& rail : rails) attempts.push_back(attempt(rail));
  Nanoseconds end = steady_now() + 3 * patience;
  bool first = true;
  for (Nanoseconds now = steady_now(); now < end; now = steady_now()) {
    if (std::ranges::none_of(attempts, [](const Attempt& each) { return each.fd.valid(); })) break;
    if (first && std::ranges::any_of(attempts, &Attempt::answered)) {
      end = std::min(end, now + patience);
      first = false;
    }
    std::vector<pollfd> events;
    for (const Attempt& each : attempts) events.push_back({each.fd.get(), POLLOUT, 0});
    ::poll(events.data(), events.size(), static_cast<int>((end - now) / kMillisecond) + 1);
    for (size_t i = 0; i < attempts.size(); ++i) look(attempts[i], events[i]);
  }
  std::vector<bool> answered;
  for (const Attempt& each : attempts) answered.push_back(each.answered);
  return answered;
}

}  // namespace tutti::tcp
