#include "transports/ucx/transport.h"

#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "transports/ucx/ucx.h"

namespace tutti {

Result<std::unique_ptr<Transport>> make_ucx_transport(const TransportContext& context) {
  return ucx::UcxTransport::create(context);
}

namespace ucx {
namespace {

// How long a rank that leaves waits for peers that do not answer. Those that call Tutti do, and those that leave, too; what
// the others have not taken by then is lost to them, since a socket that is closed with something unread in it resets.
constexpr Nanoseconds kFarewell = 2 * kSecond;
// How long a rank that leaves waits for copies that are being made of or by a living peer's memory.
constexpr Nanoseconds kLastCopies = kSecond;

}  // namespace

Result<std::unique_ptr<Transport>> UcxTransport::create(const TransportContext& context) {
  std::unique_ptr<UcxTransport> made(new UcxTransport(context));
  TUTTI_TRY_ASSIGN(made->worker_, Worker::create());
  TUTTI_TRY_ASSIGN(made->host_, host_identity());
  ByteWriter writer;
  writer.put_string(made->host_);
  writer.put<int32_t>(::getpid());
  writer.put_bytes(made->worker_->address());
  made->address_ = writer.take();
  if (made->address_.size() > kMaxAddressBytes)
    return fail(tuttiSystemError, "UCX has so many ways here that its address takes {} bytes (at most {}); name fewer in "
                "UCX_NET_DEVICES or UCX_TLS", made->address_.size(), kMaxAddressBytes);
  return std::unique_ptr<Transport>(std::move(made));
}

UcxTransport::~UcxTransport() {
  if (std::ranges::any_of(peers_, [](auto& peer) { return peer->end && peer->end->lost(); })) {
    abandon();
    return;
  }
  leave();
  for (auto& [key, box] : outboxes_) box->stop_listening();
  for (auto& [key, box] : inboxes_) box->stop_listening();
  for (auto& peer : peers_) {
    peer->leaving.cancel(worker_->get());
    if (peer->end) peer->end->stop_listening();
    peer->spare.reset();
    if (peer->end && peer->end->ends_by_force()) peer->end->close();
  }
  const Nanoseconds until = steady_now() + kLastCopies;
  while (!settled() && steady_now() < until) worker_->progress();
  for (auto& peer : peers_)
    if (peer->end) peer->end->close();
  // What is cancelled, or was given up with its endpoint, ends here; it must not outlive the memory that it names.
  worker_.reset();
}

// UCX 1.13 does not survive the death of a peer: whether it goes on, closes its endpoints or just ends, some assertion of it
// fails now and then, and ends the process (tcp_ep.c: PUT_TX_WAITING_ACK; ucp_ep.c: proto_reqs). So after a death nothing of
// it is touched again, and stays, with the memory that it may know, until the process ends. The hub has told everybody.
void UcxTransport::abandon() {
  struct Remains {
    std::unique_ptr<Worker> worker;
    std::vector<std::unique_ptr<Peer>> peers;
    std::map<std::pair<uint32_t, uint16_t>, std::shared_ptr<Outbox>> outboxes;
    std::map<std::pair<uint32_t, uint16_t>, std::shared_ptr<Inbox>> inboxes;
  };
  static std::mutex mutex;
  static auto* const all = new std::vector<Remains>;
  const std::lock_guard lock(mutex);
  all->push_back({std::move(worker_), std::move(peers_), std::move(outboxes_), std::move(inboxes_)});
}

// UCX has nothing more to do for the links.
bool UcxTransport::settled() const {
  return std::ranges::all_of(outboxes_, [](auto& each) { return each.second->settled(); }) &&
         std::ranges::all_of(inboxes_, [](auto& each) { return each.second->settled(); });
}

// Says good-bye and sees to it that the word goes out, after all that was sent before.
void UcxTransport::leave() {
  for (auto& peer : peers_)
    if (peer->end) peer->end->say_leaving();
  const auto all_know = [&] {
    return std::ranges::all_of(peers_, [](auto& peer) {
      if (!peer->end || !peer->end->gone().ok()) return true;
      // A rank of this process may be the next thing that this very thread has to do.
      const bool arrived = peer->process == ::getpid() ? peer->end->confirmed() : peer->end->all_arrived();
      return peer->end->said_leaving() && arrived;
    });
  };
  const Nanoseconds until = steady_now() + kFarewell;
  while (!all_know() && steady_now() < until) (void)progress();
}

Status UcxTransport::set_peers(std::vector<std::vector<std::byte>> addresses, std::vector<std::string> descriptions) {
  for (size_t r = 0; r < addresses.size(); ++r) {
    auto peer = std::make_unique<Peer>();
    peer->description = std::move(descriptions[r]);
    if (addresses[r].empty()) {
      peer->unreachable = "it does not offer ucx";
    } else {
      ByteReader reader(addresses[r]);
      const std::string host = reader.get_string();
      const int process = reader.get<int32_t>();
      peer->worker_address = reader.get_bytes();
      if (!reader.complete()) peer->unreachable = "its ucx address is malformed";
      if (host == host_) peer->process = process;
    }
    // UCX finds out whether two workers have a way in common when it makes an endpoint; later, no other transport could
    // take its place.
    if (peer->unreachable.empty() && r != context_.self) {
      peer->spare = make_end(Rank(r), *peer);
      if (const Status connected = peer->spare->connect(); !connected.ok()) {
        peer->unreachable = connected.message();
        peer->spare.reset();
      }
    }
    peers_.push_back(std::move(peer));
  }
  return {};
}

std::string UcxTransport::unreachable_reason(Rank peer) const {
  return peer < peers_.size() ? peers_[peer]->unreachable : "there is no such rank";
}

Status UcxTransport::check_end(Rank peer, ChannelId channel) const {
  if (peer >= peers_.size() || channel >= kMaxChannels)
    return fail(tuttiInternalError, "ucx: no link to rank {} on channel {}", uint32_t{peer}, uint32_t{channel});
  if (peers_[peer]->unreachable.empty()) return {};
  return invalid_usage("ucx cannot reach {}: {}", peers_[peer]->description, peers_[peer]->unreachable);
}

std::unique_ptr<PeerEnd> UcxTransport::make_end(Rank rank, const Peer& peer) {
  return std::make_unique<PeerEnd>(*worker_, context_.self, rank, peer.worker_address, peer.process, peer.description);
}

PeerEnd& UcxTransport::end_of(Rank rank) {
  Peer& peer = *peers_[rank];
  if (!peer.end) {
    peer.end = peer.spare ? std::move(peer.spare) : make_end(rank, peer);
    const ucp_request_param_t parameters = peer.leaving.receive_parameters();
    peer.leaving.started(ucp_tag_recv_nbx(worker_->get(), &peer.word, sizeof peer.word, tag_of(Kind::leaving, rank),
                                          ~uint64_t{0}, &parameters));
  }
  return *peer.end;
}

Result<std::unique_ptr<SendLink>> UcxTransport::open_send(Rank peer, ChannelId channel) {
  TUTTI_TRY(check_end(peer, channel));
  std::shared_ptr<Outbox>& box = outboxes_[{peer, channel}];
  if (box) return fail(tuttiInternalError, "ucx: the send link to {} is opened twice", peers_[peer]->description);
  box = std::make_shared<Outbox>(*worker_, end_of(peer), context_.self, peer, channel);
  return std::unique_ptr<SendLink>(std::make_unique<UcxSendLink>(box));
}

Result<std::unique_ptr<RecvLink>> UcxTransport::open_recv(Rank peer, ChannelId channel) {
  TUTTI_TRY(check_end(peer, channel));
  std::shared_ptr<Inbox>& box = inboxes_[{peer, channel}];
  if (box) return fail(tuttiInternalError, "ucx: the receive link from {} is opened twice", peers_[peer]->description);
  box = std::make_shared<Inbox>(*worker_, end_of(peer), context_.self, peer, channel);
  return std::unique_ptr<RecvLink>(std::make_unique<UcxRecvLink>(box));
}

Status UcxTransport::progress() {
  moved_ |= worker_->progress();
  for (auto& [key, box] : outboxes_) box->settle();
  for (auto& [key, box] : inboxes_) box->settle();
  for (auto& peer : peers_) {
    if (!peer->end) continue;
    if (!peer->leaving.under_way() && !peer->leaving.failed()) peer->end->has_left();
    peer->end->answer();
    peer->end->confirm();
  }
  return {};
}

bool UcxTransport::drained() const {
  for (auto& peer : peers_)
    if (peer->end && peer->end->gone().ok() && !peer->end->confirmed()) return false;
  return true;
}

bool UcxTransport::prepare_wait(std::vector<pollfd>& descriptors) {
  for (auto& peer : peers_)
    if (peer->end && peer->end->gone().ok() && peer->end->process_descriptor() >= 0)
      descriptors.push_back({peer->end->process_descriptor(), POLLIN, 0});
  descriptors.push_back({worker_->descriptor(), POLLIN, 0});
  // What moved since the last time may be what somebody waits for. And arming asks UCX's transports, not UCX: what that
  // has still to do shows in its progress alone.
  moved_ |= worker_->progress();
  return !std::exchange(moved_, false) && worker_->arm();
}

// An ended process matters to those who wait for it: their links say so.
Status UcxTransport::check_peers() {
  for (auto& peer : peers_)
    if (peer->end) peer->end->look();
  return {};
}

}  // namespace ucx
}  // namespace tutti
