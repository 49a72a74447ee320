// The part of TcpTransport that chooses among several networks to a host.
#include <algorithm>
#include <map>

#include "base/log.h"
#include "transports/tcp/tcp_transport.h"

namespace tutti::tcp {
namespace {

// A network answers in well under a millisecond, or, through a busy hub, in some; one that has not when others have is
// down. Spent only where a network that two hosts seem to share is dead.
constexpr Nanoseconds kPatience = 300 * kMillisecond;
// Each rank tries so many hosts, the next after its own: all ranks together try every host, at a cost that does not
// grow.
constexpr size_t kHostsTried = 8;

}  // namespace

// At both ends the same number: it is counted in networks, whether they work or not. Connections beyond parts_to() go
// by networks that work as well, and stay idle.
size_t TcpTransport::stripes_to(const Rails& rails) const {
  const size_t wanted = std::clamp<size_t>(context_.config.sockets_per_link, 1, kMaxStripes);
  return std::min((wanted + rails.networks - 1) / rails.networks, kMaxStripes / rails.networks) * rails.networks;
}

size_t TcpTransport::parts_to(const Rails& rails) const {
  return rails.ends.empty() ? stripes_to(rails) : stripes_to(rails) / rails.networks * rails.ends.size();
}

// Tries the networks shared with one host, and says what is found.
std::vector<bool> TcpTransport::try_rails(Rank peer, std::span<const Rail> shared) const {
  std::vector<bool> works = reachable(shared, kPatience);
  // Nothing answers: that is no choice among networks, and connecting will say what is wrong.
  if (std::ranges::find(works, true) == works.end()) works.assign(shared.size(), true);
  for (size_t i = 0; i < shared.size(); ++i)
    if (!works[i])
      log(LogLevel::warn, Subsystem::net, static_cast<int>(context_.self),
          "tcp: {} cannot be reached at {}, though both hosts have an interface on that network that is up; it is not "
          "used. TUTTI_SOCKET_IFNAME leaves it out from the start",
          descriptions_[peer], address_text(shared[i].socket));
  log(LogLevel::info, Subsystem::net, static_cast<int>(context_.self), "tcp: {} of {} networks shared with {} are used",
      std::ranges::count(works, true), shared.size(), descriptions_[peer]);
  return works;
}

void TcpTransport::find_rails(std::span<const Address> addresses) {
  const std::vector<Rail>& own = addresses[context_.self].rails;
  std::map<uint64_t, std::vector<bool>> found;  // by host that was tried: which of the networks shared with it work
  std::map<Network, bool> works;                // towards some host that was tried
  const auto end_at = [&](Rank peer, const Rail& rail) {
    return PeerEnd{.address = rail.socket,
                   .same_host = false,
                   .description = fmt::format("{} at {}", descriptions_[peer], endpoint_text(rail.socket))};
  };
  for (uint32_t step = 1; step < context_.nranks; ++step) {
    const Rank r{(context_.self + step) % context_.nranks};
    const Address& theirs = addresses[r];
    if (!unreachable_[r].empty() || peers_[r].same_host || (own.size() < 2 && theirs.rails.size() < 2)) continue;
    const std::vector<Rail> shared = shared_rails(own, theirs.rails);
    if (shared.size() == 1) peers_[r] = end_at(r, shared[0]);
    if (shared.size() < 2) continue;
    auto host = found.find(theirs.host);
    if (host == found.end() && found.size() < kHostsTried) {
      host = found.emplace(theirs.host, try_rails(r, shared)).first;
      for (size_t i = 0; i < shared.size(); ++i)
        if (host->second[i])
          works[network_of(shared[i])] = true;
        else
          works.emplace(network_of(shared[i]), false);
    }
    // Of a host that was not tried, what was found of others; a network that none of them has is taken to work.
    const auto usable = [&](size_t i) {
      if (host != found.end() && host->second.size() == shared.size()) return static_cast<bool>(host->second[i]);
      const auto known = works.find(network_of(shared[i]));
      return known == works.end() || known->second;
    };
    rails_[r].networks = shared.size();
    for (size_t i = 0; i < shared.size(); ++i)
      if (usable(i)) rails_[r].ends.push_back(end_at(r, shared[i]));
    if (rails_[r].ends.empty())
      for (const Rail& rail : shared) rails_[r].ends.push_back(end_at(r, rail));
    peers_[r] = rails_[r].ends[0];
  }
}

}  // namespace tutti::tcp
