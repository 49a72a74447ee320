#include "transports/shm/shm.h"

#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>

#include "base/host.h"
#include "transports/shm/link.h"
#include "transports/shm/process.h"

namespace tutti {
namespace shm {
namespace {

class ShmTransport final : public Transport {
 public:
  ShmTransport(const TransportContext& context, Address address, std::shared_ptr<Inbox> inbox, Doorbell doorbell)
      : self_(context.self),
        nranks_(context.nranks),
        address_(std::move(address)),
        inbox_(std::move(inbox)),
        doorbell_(std::move(doorbell)) {}
  ~ShmTransport() override;

  std::string_view name() const override { return "shm"; }
  std::vector<std::byte> address() const override { return encode(address_); }
  size_t max_message_bytes() const override { return address_.geometry.slot_bytes; }

  Status set_peers(std::vector<std::vector<std::byte>> addresses, std::vector<std::string> descriptions) override;
  std::string unreachable_reason(Rank peer) const override;
  Result<std::unique_ptr<SendLink>> open_send(Rank peer, ChannelId channel) override;
  Result<std::unique_ptr<RecvLink>> open_recv(Rank peer, ChannelId channel) override;

  Status progress() override { return {}; }
  bool drained() const override { return true; }
  bool prepare_wait(std::vector<pollfd>& descriptors) override;
  void finish_wait() override;
  Status check_peers() override;

 private:
  using Channels = std::bitset<kMaxChannels>;

  void disarm();
  // Fills in peer.inbox, or peer.unreachable with the reason.
  void reach(Peer& peer, std::span<const std::byte> bytes) const;
  Status check_opening(Rank peer, ChannelId channel, std::vector<Channels>& opened) const;

  const Rank self_, nranks_;
  const Address address_;
  const std::shared_ptr<Inbox> inbox_;
  const Doorbell doorbell_;
  std::vector<Peer> peers_;
  std::vector<Channels> opened_sends_, opened_receives_;  // by peer
  std::vector<LinkEnd*> ends_;                            // the open ones; they take themselves out
  bool asleep_ = false;                                   // between prepare_wait() and finish_wait()
};

ShmTransport::~ShmTransport() {
  // A forked child that runs its parent's destructors must not announce its parent's end.
  if (::getpid() != address_.pid) return;
  // Sequentially consistent and before the look at `sleeping`: a sleeper sets its word and then looks at ours, so it
  // either finds us gone or is rung.
  inbox_->header().closed.store(1, std::memory_order_seq_cst);
  for (Peer& peer : peers_) {
    if (peer.inbox && peer.inbox->header().sleeping.exchange(0, std::memory_order_seq_cst) != 0)
      doorbell_.ring(peer.doorbell);
  }
}

void ShmTransport::reach(Peer& peer, std::span<const std::byte> bytes) const {
  if (bytes.empty()) {
    peer.unreachable = "it does not offer shared memory";
  } else if (!decode(bytes, peer.address)) {
    peer.unreachable = "it runs another version of Tutti's shared memory protocol";
  } else if (peer.address.host != address_.host) {
    peer.unreachable = "it runs on another host, or in another container (network or process namespace)";
  } else if (peer.address.user != address_.user) {
    peer.unreachable =
        fmt::format("it runs as another user (id {}, this rank as {})", peer.address.user, address_.user);
  } else if (!peer.address.dumpable || !address_.dumpable) {
    // Said by both sides, so that they agree: only one direction would fail by itself.
    peer.unreachable = "its process or this one forbids others to look into it (prctl PR_SET_DUMPABLE, set-user-id)";
  } else if (peer.address.geometry != address_.geometry) {
    peer.unreachable = "its slots differ in size or number; TUTTI_TILE must be the same on all ranks";
  } else if (auto inbox = PeerInbox::open(peer.address); !inbox.ok()) {
    peer.unreachable = inbox.status().message();
  } else {
    peer.inbox = std::move(inbox).value();
    peer.barriers = peer.address.barriers && address_.barriers;
    peer.doorbell = doorbell_name(peer.address.token);
  }
}

Status ShmTransport::set_peers(std::vector<std::vector<std::byte>> addresses, std::vector<std::string> descriptions) {
  if (addresses.size() != nranks_ || descriptions.size() != nranks_ || !peers_.empty())
    return fail(tuttiInternalError, "set_peers() must be called once, with {} addresses and descriptions",
                uint32_t{nranks_});
  peers_.resize(nranks_);
  opened_sends_.resize(nranks_);
  opened_receives_.resize(nranks_);
  for (size_t r = 0; r < peers_.size(); ++r) {
    peers_[r].description = std::move(descriptions[r]);
    reach(peers_[r], addresses[r]);
  }
  return {};
}

std::string ShmTransport::unreachable_reason(Rank peer) const {
  return peer < peers_.size() ? peers_[peer].unreachable : "there is no such rank";
}

Status ShmTransport::check_opening(Rank peer, ChannelId channel, std::vector<Channels>& opened) const {
  if (peer >= peers_.size() || channel >= kMaxChannels)
    return fail(tuttiInternalError, "there is no shared memory link to rank {}, channel {}", uint32_t{peer},
                uint16_t{channel});
  if (!peers_[peer].unreachable.empty())
    return invalid_usage("{} cannot be reached through shared memory: {}", peers_[peer].description,
                         peers_[peer].unreachable);
  if (opened[peer][channel])
    return fail(tuttiInternalError, "this end of the shared memory link to {}, channel {}, has been opened before",
                peers_[peer].description, uint16_t{channel});
  opened[peer][channel] = true;
  return {};
}

Result<std::unique_ptr<SendLink>> ShmTransport::open_send(Rank peer, ChannelId channel) {
  TUTTI_TRY(check_opening(peer, channel, opened_sends_));
  Peer& to = peers_[peer];
  auto memory = to.inbox->section(self_, channel);
  if (!memory.ok()) {
    TUTTI_TRY(to.gone());
    if (!to.inbox->same_process() && !process_lives(to.address.pid, to.address.start_time))
      return fail(tuttiRemoteError, "{} has ended", to.description);
    return memory.status().within(to.description);
  }
  return std::unique_ptr<SendLink>(std::make_unique<ShmSendLink>(to, doorbell_, std::move(memory).value(), ends_));
}

Result<std::unique_ptr<RecvLink>> ShmTransport::open_recv(Rank peer, ChannelId channel) {
  TUTTI_TRY(check_opening(peer, channel, opened_receives_));
  TUTTI_TRY_ASSIGN(auto memory, inbox_->section(peer, channel));
  return std::unique_ptr<RecvLink>(
      std::make_unique<ShmRecvLink>(peers_[peer], doorbell_, std::move(memory), address_.geometry, ends_));
}

bool ShmTransport::prepare_wait(std::vector<pollfd>& descriptors) {
  // Before the links' flags: a partner that finds its link's flag set must find this word set too.
  inbox_->header().sleeping.store(1, std::memory_order_seq_cst);
  for (LinkEnd* end : ends_) end->arm();
  if (address_.barriers) process_barrier();
  if (!std::all_of(ends_.begin(), ends_.end(), [](const LinkEnd* end) { return end->quiet(); })) {
    disarm();
    for (LinkEnd* end : ends_) end->take_news();
    return false;
  }
  asleep_ = true;
  descriptors.push_back({.fd = doorbell_.descriptor(), .events = POLLIN, .revents = 0});
  return true;
}

void ShmTransport::disarm() {
  for (LinkEnd* end : ends_) end->disarm();
  // Relaxed: who still finds the 1 rings once too often.
  inbox_->header().sleeping.store(0, std::memory_order_relaxed);
}

void ShmTransport::finish_wait() {
  if (!asleep_) return;
  asleep_ = false;
  disarm();
  // Always: a ring of the sleep before may have come only now.
  doorbell_.drain();
}

Status ShmTransport::check_peers() {
  for (Peer& peer : peers_) {
    if (peer.open_links == 0 || peer.inbox->same_process()) continue;
    if (!peer.failure.ok()) return peer.failure;
    if (peer.inbox->header().closed.load(std::memory_order_seq_cst) != 0) continue;  // left on purpose: may end
    if (process_lives(peer.address.pid, peer.address.start_time)) continue;
    // It may have left on purpose between the two looks.
    if (peer.inbox->header().closed.load(std::memory_order_seq_cst) != 0) continue;
    peer.failure = fail(tuttiRemoteError, "{} has died: its process is gone", peer.description);
    return peer.failure;
  }
  return {};
}

Result<Token> make_token() {
  Token token;
  if (::getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size()))
    return system_error("getrandom", errno);
  return token;
}

}  // namespace
}  // namespace shm

Result<std::unique_ptr<Transport>> make_shm_transport(const TransportContext& context) {
  const shm::Geometry geometry = shm::choose_geometry(context.nranks, context.config);
  TUTTI_TRY_ASSIGN(const shm::Token token, shm::make_token());
  TUTTI_TRY_ASSIGN(auto inbox, shm::Inbox::create(token, geometry));
  TUTTI_TRY_ASSIGN(auto doorbell, shm::Doorbell::create(token));
  TUTTI_TRY_ASSIGN(std::string host, host_identity());
  shm::Address address{.host = std::move(host),
                       .user = ::geteuid(),
                       .dumpable = ::prctl(PR_GET_DUMPABLE) == 1,
                       .barriers = process_barrier_works(),
                       .pid = ::getpid(),
                       .start_time = shm::own_start_time(),
                       .memfd = inbox->memfd(),
                       .token = token,
                       .geometry = geometry};
  return std::unique_ptr<Transport>(
      std::make_unique<shm::ShmTransport>(context, std::move(address), std::move(inbox), std::move(doorbell)));
}

}  // namespace tutti
