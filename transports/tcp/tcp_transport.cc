#include "transports/tcp/tcp_transport.h"

#include <net/if.h>

#include <algorithm>
#include <cstring>

#include "base/host.h"
#include "base/log.h"
#include "transports/tcp/links.h"

namespace tutti::tcp {
namespace {

// While nobody awaits a connection, a look at the listener every so many calls keeps strangers from filling its queue.
// epoll_wait costs 0.3 us.
constexpr uint32_t kCallsPerIdleAccept = 1024;
constexpr size_t kOtherDescriptors = 32;  // of the process: stdio, the listener, the rendezvous, what the caller holds

uint64_t number_of(std::string_view text, std::span<const std::byte> key) {
  const auto mac = mac_of(key, std::as_bytes(std::span(text)));
  uint64_t number;
  std::memcpy(&number, mac.data(), sizeof number);
  return number;
}

const char* family_name(const sockaddr_storage& address) { return address.ss_family == AF_INET6 ? "IPv6" : "IPv4"; }

}  // namespace

TcpTransport::TcpTransport(const TransportContext& context, const TcpOptions& options,
                           std::vector<NetworkInterface> interfaces)
    : context_(context), interfaces_(std::move(interfaces)) {
  const size_t per_link = std::clamp<size_t>(context.config.sockets_per_link, 1, kMaxStripes);
  settings_ = {.options = options,
               .timeout = context.config.timeout,
               .congestion = context.config.socket_congestion,
               .descriptors_wanted = 2 * (context.nranks - 1) * per_link + kOtherDescriptors};
}

Result<std::unique_ptr<Transport>> TcpTransport::create(const TransportContext& context, const TcpOptions& options) {
  TUTTI_TRY_ASSIGN(std::vector<NetworkInterface> interfaces, choose_interfaces(context.config));
  TUTTI_TRY(check_congestion(context.config.socket_congestion));
  TUTTI_TRY_ASSIGN(const std::string host, host_identity());
  std::unique_ptr<TcpTransport> transport(new TcpTransport(context, options, std::move(interfaces)));
  transport->host_ = number_of(host, context.key);
  TUTTI_TRY_ASSIGN(transport->acceptor_, Acceptor::create(transport->interface_.address, context.config.port_range,
                                                          transport->settings_, context.key));
  log(LogLevel::info, Subsystem::net, static_cast<int>(context.self), "tcp: listening at {} ({})",
      endpoint_text(transport->acceptor_->local_address()), transport->interface_.name);
  for (size_t i = 1; i < std::min(transport->interfaces_.size(), kMaxRails); ++i) {
    transport->acceptor_->listen_also(transport->interfaces_[i].address, context.config.port_range);
    log(LogLevel::info, Subsystem::net, static_cast<int>(context.self), "tcp: and at {} ({})",
        address_text(transport->interfaces_[i].address), transport->interfaces_[i].name);
  }
  return std::unique_ptr<Transport>(std::move(transport));
}

std::vector<std::byte> TcpTransport::address() const {
  Address address{.socket = acceptor_->local_address(), .host = host_, .cookie = acceptor_->cookie()};
  for (const sockaddr_storage& further : acceptor_->further_addresses()) {
    // Listeners know no masks; the interface of that address does.
    for (const NetworkInterface& interface : interfaces_)
      if (address_text(interface.address) == address_text(further))
        address.rails.push_back({further, interface.prefix_bits});
  }
  address.rails.insert(address.rails.begin(), {address.socket, interface_.prefix_bits});
  return encode_address(address);
}

Status TcpTransport::set_peers(std::vector<std::vector<std::byte>> addresses, std::vector<std::string> descriptions) {
  const size_t n = context_.nranks;
  if (addresses.size() != n || descriptions.size() != n) {
    return fail(tuttiInternalError, "tcp: {} addresses and {} descriptions for {} ranks", addresses.size(),
                descriptions.size(), n);
  }
  descriptions_ = std::move(descriptions);
  peers_.resize(n);
  cookies_.resize(n);
  unreachable_.resize(n);
  rails_.resize(n);
  std::vector<Address> all(n);
  for (uint32_t r = 0; r < n; ++r) {
    Address address;
    unreachable_[r] = reason_against(Rank{r}, addresses[r], address);
    if (!unreachable_[r].empty()) continue;
    // A link-local address means a host of the link behind an interface; which one is this rank's own business.
    if (is_link_local(address.socket)) {
      reinterpret_cast<sockaddr_in6&>(address.socket).sin6_scope_id = ::if_nametoindex(interface_.name.c_str());
    }
    cookies_[r] = address.cookie;
    peers_[r] = {.address = address.socket,
                 .same_host = address.host == host_,
                 .description = fmt::format("{} at {}", descriptions_[r], endpoint_text(address.socket))};
    all[r] = std::move(address);
  }
  find_rails(all);
  return Status::success();
}

std::string TcpTransport::reason_against(Rank peer, std::span<const std::byte> bytes, Address& address) const {
  if (bytes.empty()) return "it offers no tcp address";
  Result<Address> decoded = decode_address(bytes);
  if (!decoded.ok()) return std::string(decoded.status().message());
  address = *decoded;
  const sockaddr_storage& own = acceptor_->local_address();
  if (address.socket.ss_family != own.ss_family) {
    return fmt::format(
        "it listens at {} ({}) and this rank at {} ({}); TUTTI_SOCKET_FAMILY or TUTTI_SOCKET_IFNAME, set "
        "alike on all hosts, makes them meet",
        address_text(address.socket), family_name(address.socket), address_text(own), family_name(own));
  }
  if (address.host == host_ || peer == context_.self) return {};
  const bool own_loopback = is_loopback(own);
  if (own_loopback || is_loopback(address.socket)) {
    return fmt::format("{} at {}, which no other host can reach; TUTTI_SOCKET_IFNAME chooses another interface",
                       own_loopback ? "this rank listens" : "it listens",
                       address_text(own_loopback ? own : address.socket));
  }
  return {};
}

std::string TcpTransport::unreachable_reason(Rank peer) const {
  return peer < unreachable_.size() ? unreachable_[peer] : "there is no such rank";
}

Status TcpTransport::check_end(Rank peer, ChannelId channel) const {
  if (peer >= peers_.size() || channel >= kMaxChannels) {
    return fail(tuttiInternalError, "tcp: no link to rank {} on channel {}: there are {} ranks and {} channels",
                static_cast<uint32_t>(peer), static_cast<uint32_t>(channel), peers_.size(), kMaxChannels);
  }
  if (unreachable_[peer].empty()) return Status::success();
  return invalid_usage("tcp cannot reach {}: {}", descriptions_[peer], unreachable_[peer]);
}

Result<std::unique_ptr<SendLink>> TcpTransport::open_send(Rank peer, ChannelId channel) {
  TUTTI_TRY(check_end(peer, channel));
  if (!opened_sends_.insert(key_of(peer, channel)).second) {
    return fail(tuttiInternalError, "tcp: the send link to {} on channel {} is opened twice", descriptions_[peer],
                static_cast<uint32_t>(channel));
  }
  const Rails& rails = rails_[peer];
  const auto count = static_cast<uint16_t>(stripes_to(rails));
  const Inbound& back = inbound(peer, channel);
  std::vector<std::unique_ptr<SendStripe>> stripes;
  for (uint16_t i = 0; i < count; ++i) {
    const Hello hello{context_.self, peer, channel, i, count};
    // Small messages travel on the first stripe alone, so channels begin with different networks.
    const PeerEnd& end = rails.ends.empty() ? peers_[peer] : rails.ends[(i + channel) % rails.ends.size()];
    stripes.push_back(
        std::make_unique<SendStripe>(end, hello, encode_hello(hello, context_.key, cookies_[peer]), settings_));
    stripes_.push_back(stripes.back().get());
    auto called = back.channel ? back.channel->called(i) : nullptr;
    if (called) offer(*stripes.back(), std::move(called));
  }
  auto link = std::make_unique<TcpSendLink>(*this, std::move(stripes), parts_to(rails));
  TUTTI_TRY(link->connect());
  return std::unique_ptr<SendLink>(std::move(link));
}

TcpTransport::Inbound& TcpTransport::inbound(Rank source, ChannelId channel) {
  const auto [at, added] = inbound_.try_emplace(key_of(source, channel));
  if (added) {
    at->second.channel = std::make_unique<RecvChannel>(
        descriptions_[source], AnswerProof{source, context_.self, channel, context_.key, cookies_[source]});
  }
  return at->second;
}

Result<std::unique_ptr<RecvLink>> TcpTransport::open_recv(Rank peer, ChannelId channel) {
  TUTTI_TRY(check_end(peer, channel));
  Inbound& from = inbound(peer, channel);
  if (from.opened) {
    return fail(tuttiInternalError, "tcp: the receive link from {} on channel {} is opened twice", descriptions_[peer],
                static_cast<uint32_t>(channel));
  }
  from.opened = true;
  incomplete_.push_back(from.channel.get());
  return std::unique_ptr<RecvLink>(std::make_unique<TcpRecvLink>(*this, *from.channel, peer, channel));
}

void TcpTransport::close_recv(Rank source, ChannelId channel) {
  Inbound& from = inbound(source, channel);
  std::erase(incomplete_, from.channel.get());
  from.channel.reset();
}

Status TcpTransport::advance(SendStripe& stripe) {
  const Status status = stripe.advance();
  note(stripe, status);
  if (status.ok() && !stripe.idle() && !stripe.listed) {
    stripe.listed = true;
    busy_.push_back(&stripe);
  }
  return status;
}

void TcpTransport::note(SendStripe& stripe, const Status& status) {
  if (!status.ok() && failure_.ok()) failure_ = status;
  const Hello& hello = stripe.hello();
  // To oneself both ends are here, and the receiving one gets the connection from the listener.
  auto made = stripe.take_made();
  if (!made || hello.destination == context_.self) return;
  Inbound& back = inbound(hello.destination, hello.channel);
  if (back.channel) back.channel->add_made(hello.stripe, hello.stripes, std::move(made));
}

void TcpTransport::offer(SendStripe& stripe, std::shared_ptr<Connection> connection) {
  Hello answer = stripe.hello();
  if (answer.destination == context_.self) return;
  SendStripe::Answers answers;
  answer.kind = Hello::Kind::answer;
  answers.plain = encode_hello(answer, context_.key, acceptor_->cookie());
  answer.kind = Hello::Kind::answer_after_move;
  answers.after_move = encode_hello(answer, context_.key, acceptor_->cookie());
  stripe.offer(std::move(connection), answers, answer.destination < context_.self);
}

void TcpTransport::retire(std::vector<std::unique_ptr<SendStripe>> stripes) {
  for (auto& stripe : stripes) {
    std::erase(stripes_, stripe.get());
    const bool goes_on =
        stripe->has_parts() && stripe->status().ok() && stripe->first_borrowed(UINT64_MAX) == UINT64_MAX;
    if (goes_on) {
      ownerless_.push_back(std::move(stripe));
    } else {
      std::erase(busy_, stripe.get());
    }
  }
}

Status TcpTransport::progress() {
  for (size_t i = 0; i < busy_.size();) {
    SendStripe& stripe = *busy_[i];
    const Status status = stripe.advance();
    note(stripe, status);
    if (status.ok() && !stripe.idle()) {
      ++i;
      continue;
    }
    stripe.listed = false;
    busy_[i] = busy_.back();
    busy_.pop_back();
    std::erase_if(ownerless_, [&](const auto& each) { return each.get() == &stripe; });
  }
  if (awaits_connections() || ++calls_ % kCallsPerIdleAccept == 0) TUTTI_TRY(accept_guests());
  return failure_;
}

bool TcpTransport::awaits_connections() {
  if (!incomplete_.empty()) std::erase_if(incomplete_, [](const RecvChannel* each) { return each->complete(); });
  return !incomplete_.empty() || acceptor_->anyone_pending();
}

Status TcpTransport::accept_guests() {
  const Status status = acceptor_->poll(guests_);
  for (Guest& guest : guests_) welcome(std::move(guest));
  guests_.clear();
  if (!status.ok() && failure_.ok()) failure_ = status;
  return failure_;
}

void TcpTransport::welcome(Guest guest) {
  const Hello& hello = guest.hello;
  // Members do not say such things; whoever does has learnt the key and still is no peer.
  if (hello.destination != context_.self || hello.source >= peers_.size() || hello.channel >= kMaxChannels) return;
  Inbound& from = inbound(hello.source, hello.channel);
  if (!from.channel) return;
  set_connection_options(guest.fd.get(), peers_[hello.source].same_host, settings_);
  auto connection = std::make_shared<Connection>(std::move(guest.fd), std::move(guest.from));
  if (!from.channel->add_called(hello.stripe, hello.stripes, connection)) return;
  const auto back = std::find_if(stripes_.begin(), stripes_.end(), [&](const SendStripe* each) {
    return each->hello().destination == hello.source && each->hello().channel == hello.channel &&
           each->hello().stripe == hello.stripe;
  });
  if (back != stripes_.end()) offer(**back, std::move(connection));
}

bool TcpTransport::drained() const {
  return std::none_of(busy_.begin(), busy_.end(), [](const SendStripe* stripe) { return stripe->has_parts(); });
}

bool TcpTransport::prepare_wait(std::vector<pollfd>& descriptors) {
  if (awaits_connections()) {
    descriptors.push_back({.fd = acceptor_->descriptor(), .events = POLLIN});
  }
  // A stripe between two attempts to connect has none: the wait loop comes back by itself soon enough for it.
  for (const SendStripe* stripe : busy_) {
    if (stripe->descriptor() >= 0) descriptors.push_back({.fd = stripe->descriptor(), .events = POLLOUT});
  }
  for (const auto& [key, from] : inbound_) {
    if (from.channel) from.channel->add_awaited(descriptors);
  }
  return true;
}

Status TcpTransport::check_peers() {
  TUTTI_TRY(accept_guests());
  // One poll() over all of them tells whether any is broken. An orderly end is none: a peer that has done its part may
  // leave. What is asked of a connection after that fails by itself.
  std::vector<pollfd> all;
  for (const SendStripe* stripe : stripes_) {
    if (stripe->descriptor() >= 0) all.push_back({.fd = stripe->descriptor()});
  }
  for (const auto& [key, from] : inbound_) {
    if (from.channel) from.channel->add_all(all);
  }
  ::poll(all.data(), all.size(), 0);
  if (std::none_of(all.begin(), all.end(), [](const pollfd& each) { return (each.revents & POLLERR) != 0; })) {
    return failure_;
  }
  for (SendStripe* stripe : stripes_) {
    if (!stripe->check_broken() && failure_.ok()) failure_ = stripe->status();
  }
  for (auto& [key, from] : inbound_) {
    if (!from.channel) continue;
    from.channel->check_broken();
    if (failure_.ok()) failure_ = from.channel->status();
  }
  return failure_;
}

}  // namespace tutti::tcp

namespace tutti {

Result<std::unique_ptr<Transport>> make_tcp_transport(const TransportContext& context, const TcpOptions& options) {
  return tcp::TcpTransport::create(context, options);
}

}  // namespace tutti
