#include "comm/wiring.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/log.h"
#include "comm/topology_dump.h"
#include "comm/transport_rows.h"
#include "topo/read.h"
#include "transports/p2p/p2p.h"
#include "transports/self/self.h"

namespace tutti {
namespace {

// Of a set of cores on a rank's card: as many as sched_getaffinity() tells of.
constexpr uint32_t kMostCoreWords = 1024 / 64;

uint32_t link_key(const Peer& peer) { return peer.rank * uint32_t{Transport::kMaxChannels} + peer.channel; }

}  // namespace

Wiring::~Wiring() = default;

std::string Wiring::describe(Rank rank) const { return tutti::describe(members_[rank]); }

Result<std::unique_ptr<Wiring>> Wiring::create(const Config& config, std::vector<std::byte> key, Control& control,
                                               Rank self, Rank nranks, Device* device) {
  std::unique_ptr<Wiring> wiring(new Wiring(self, nranks, device));
  wiring->members_ = control.members();
  // Measured costs are compared by value: ranks may have them in files of different names.
  std::optional<Parameters> tuned;
  if (!config.tuning_file.empty()) {
    const Parameters& built_in = built_in_parameters(MachineClass::one_last_level_cache);
    TUTTI_TRY_ASSIGN(tuned, read_parameters(config.tuning_file, built_in));
  }
  std::vector<std::string> agreement = config.agreement();
  agreement.push_back(tuned ? fmt::format("TUTTI_TUNING_FILE with contents {:016x}", hash_of(*tuned))
                            : "no TUTTI_TUNING_FILE");
  TUTTI_TRY_ASSIGN(std::string host, host_identity());
  if (device && device->node() != 0) host += fmt::format("/simulated node {}", device->node());
  TUTTI_TRY_ASSIGN(wiring->around_, look_around(config, device));
  wiring->config_ = config;
  TUTTI_TRY_ASSIGN(wiring->config_.far_cards, far_cards(config, wiring->around_));
  const TransportContext context{wiring->config_, std::move(key), self, nranks};
  TUTTI_TRY(wiring->make_offers(context));
  TUTTI_TRY(wiring->make_device_ends(context));
  TUTTI_TRY_ASSIGN(const auto cards, control.exchange(wiring->own_card(host, agreement)));
  TUTTI_TRY(wiring->read_cards(cards, agreement));
  TUTTI_TRY(wiring->set_peers());
  TUTTI_TRY_ASSIGN(const auto usable, control.exchange(wiring->usable_offers()));
  TUTTI_TRY(wiring->choose_routes(usable));
  TUTTI_TRY(wiring->agree_on_orders(control));
  wiring->gather_facts(usable, tuned);
  wiring->log_routes();
  if (wiring->first_here()) {
    const std::optional<Machine>& known = wiring->around_.machine;
    TUTTI_TRY(dump_topology(config, known ? &*known : nullptr));
  }
  return wiring;
}

Status Wiring::make_offers(const TransportContext& context) {
  loopback_ = make_self_transport(context);
  TUTTI_TRY_ASSIGN(const auto rows, allowed_transports(context.config.transport));
  left_out_ = left_out_text(rows);
  for (const TransportRow* row : rows) {
    auto made = row->make(context, device_);
    // A wrong setting is the user's to mend; anything else only takes this transport away.
    if (!made.ok() && made.status().code() == tuttiInvalidUsage) return made.status();
    if (made.ok())
      offers_.push_back({row->name, row->mapped, std::move(made).value(), {}});
    else
      offers_.push_back({row->name, row->mapped, nullptr, std::string(made.status().message())});
  }
  return check_offers(context.config.transport);
}

// A rank that can offer nothing says so even where it is alone.
Status Wiring::check_offers(const NameList& wanted) const {
  std::string reasons;
  for (const Offer& offer : offers_) {
    if (offer.transport) return {};
    reasons += fmt::format("; {}: {}", offer.name, offer.why_not);
  }
  if (reasons.empty() || std::ranges::find(wanted.names, "self") != wanted.names.end()) return {};
  return invalid_usage("TUTTI_TRANSPORT allows none that is available here{}; shm and tcp always are", reasons);
}

// A rank reaches itself by p2p even where the configuration leaves p2p out.
Status Wiring::make_device_ends(const TransportContext& context) {
  if (!device_) return {};
  device_event_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!device_event_) return system_error("eventfd", errno, "raise the limit of open files (ulimit -n)");
  for (const Offer& offer : offers_)
    if (offer.name == "p2p") p2p_ = static_cast<P2pTransport*>(offer.transport.get());
  if (p2p_) return {};
  TUTTI_TRY_ASSIGN(auto made, make_p2p_transport(context, *device_));
  p2p_ = made.get();
  own_p2p_ = std::move(made);
  return {};
}

std::vector<std::byte> Wiring::own_card(const std::string& host, const std::vector<std::string>& agreement) const {
  ByteWriter writer;
  writer.put_string(host);
  writer.put<uint8_t>(device_ ? 1 : 0);
  writer.put<uint64_t>(p2p_ ? p2p_->max_message_bytes() : 0);
  const CoreSet cores = usable_cores();
  writer.put(cores.quota_cores);
  writer.put(static_cast<uint32_t>(cores.words.size()));
  for (const uint64_t word : cores.words) writer.put(word);
  const Caches& caches = machine_caches();
  writer.put(caches.l2_bytes);
  writer.put(caches.last_level_caches);
  writer.put(around_.machine ? fnv1a(around_.structure()) : uint64_t{0});
  writer.put(around_.gpu);
  writer.put(static_cast<uint32_t>(agreement.size()));
  for (const std::string& setting : agreement) writer.put_string(setting);
  writer.put(static_cast<uint32_t>(offers_.size()));
  for (const Offer& offer : offers_) {
    writer.put<uint64_t>(offer.transport ? offer.transport->max_message_bytes() : 0);
    writer.put_bytes(offer.transport ? offer.transport->address() : std::vector<std::byte>{});
    writer.put_string(offer.why_not);
  }
  return writer.take();
}

Status Wiring::check_agreement(const std::vector<std::string>& mine, const std::vector<std::string>& theirs,
                               Rank peer) const {
  const auto without = [](const std::vector<std::string>& these, const std::vector<std::string>& others) {
    std::string list;
    for (const std::string& setting : these)
      if (std::ranges::find(others, setting) == others.end()) list += (list.empty() ? "" : ", ") + setting;
    return list;
  };
  if (mine == theirs) return {};
  return invalid_usage("{} and {} have different settings: {} on the one, {} on the other; set them alike on all ranks",
                       describe(self_), describe(peer), without(mine, theirs), without(theirs, mine));
}

Status Wiring::read_cards(const std::vector<std::vector<std::byte>>& blobs, const std::vector<std::string>& agreement) {
  for (uint32_t r = 0; r < nranks_; ++r) {
    ByteReader reader(blobs[r]);
    RankCard card;
    card.host = reader.get_string();
    card.has_device = reader.get<uint8_t>() != 0;
    card.device_slot_bytes = reader.get<uint64_t>();
    card.cores.quota_cores = reader.get<uint32_t>();
    card.cores.words.resize(std::min(reader.get<uint32_t>(), kMostCoreWords));
    for (uint64_t& word : card.cores.words) word = reader.get<uint64_t>();
    card.caches.l2_bytes = reader.get<uint64_t>();
    card.caches.last_level_caches = reader.get<uint32_t>();
    card.structure = reader.get<uint64_t>();
    card.gpu = reader.get<int32_t>();
    std::vector<std::string> theirs;
    for (uint32_t i = reader.get<uint32_t>(); i > 0 && reader.ok(); --i) theirs.push_back(reader.get_string());
    if (reader.ok()) TUTTI_TRY(check_agreement(agreement, theirs, Rank{r}));
    const uint32_t ways = reader.get<uint32_t>();
    for (uint32_t i = 0; i < ways && reader.ok(); ++i) {
      const uint64_t max_message_bytes = reader.get<uint64_t>();
      std::vector<std::byte> address = reader.get_bytes();
      card.ways.push_back({max_message_bytes, std::move(address), reader.get_string()});
    }
    if (!reader.complete() || ways != offers_.size())
      return fail(tuttiInternalError, "{} sent a malformed card", describe(Rank{r}));
    cards_.push_back(std::move(card));
  }
  return {};
}

Status Wiring::set_peers() {
  std::vector<std::string> descriptions;
  for (const Introduction& member : members_) descriptions.push_back(tutti::describe(member));
  for (size_t i = 0; i < offers_.size(); ++i) {
    if (!offers_[i].transport) continue;
    std::vector<std::vector<std::byte>> addresses;
    for (const RankCard& card : cards_) addresses.push_back(card.ways[i].address);
    TUTTI_TRY(offers_[i].transport->set_peers(std::move(addresses), descriptions));
  }
  if (own_p2p_) TUTTI_TRY(own_p2p_->set_peers(std::vector<std::vector<std::byte>>(nranks_), descriptions));
  return loopback_->set_peers(std::vector<std::vector<std::byte>>(nranks_), std::move(descriptions));
}

// One byte a peer: bit i says that this rank can use offer i towards it.
std::vector<std::byte> Wiring::usable_offers() const {
  std::vector<std::byte> usable(nranks_);
  for (uint32_t r = 0; r < nranks_; ++r)
    for (size_t i = 0; i < offers_.size(); ++i)
      if (offers_[i].transport && offers_[i].transport->unreachable_reason(Rank{r}).empty() &&
          (cards_[r].host == cards_[self_].host || !stays_in_a_node(offers_[i].name)))
        usable[r] |= std::byte{1} << i;
  return usable;
}

namespace {

constexpr size_t kNoRoute = SIZE_MAX;

// The most preferred offer that both ends of (a, b) can use.
size_t route_between(const std::vector<std::vector<std::byte>>& usable, uint32_t a, uint32_t b, unsigned among = ~0u) {
  const auto both = std::to_integer<unsigned>(usable[a][b] & usable[b][a]) & among;
  return both == 0 ? kNoRoute : static_cast<size_t>(__builtin_ctz(both));
}

}  // namespace

std::string Wiring::why_not(size_t offer, Rank peer) const {
  const auto at = [&](Rank rank, std::string_view reason) { return fmt::format("at {}: {}", describe(rank), reason); };
  if (!offers_[offer].transport) return at(self_, offers_[offer].why_not);
  if (const std::string& theirs = cards_[peer].ways[offer].why_not; !theirs.empty()) return at(peer, theirs);
  const std::string reason = offers_[offer].transport->unreachable_reason(peer);
  return reason.empty() ? "the other end cannot use it" : reason;
}

Status Wiring::choose_routes(const std::vector<std::vector<std::byte>>& usable) {
  for (uint32_t r = 0; r < nranks_; ++r)
    if (usable[r].size() != nranks_) return fail(tuttiInternalError, "{} sent a malformed answer", describe(Rank{r}));
  route_.assign(nranks_, kNoRoute);
  host_route_.assign(nranks_, kNoRoute);
  unsigned for_hosts = ~0u;
  for (size_t i = 0; i < offers_.size(); ++i)
    if (offers_[i].name == "p2p") for_hosts &= ~(1u << i);
  for (uint32_t r = 0; r < nranks_; ++r) {
    if (r == self_) continue;
    route_[r] = route_between(usable, self_, r);
    host_route_[r] = route_between(usable, self_, r, for_hosts);
    if (route_[r] != kNoRoute) continue;
    std::string reasons;
    for (size_t i = 0; i < offers_.size(); ++i)
      reasons += fmt::format("; {}: {}", offers_[i].name, why_not(i, Rank{r}));
    return invalid_usage(
        "no allowed transport connects {} and {}{}; TUTTI_TRANSPORT chooses among p2p, shm, verbs, tcp and ucx",
        describe(self_), describe(Rank{r}), reasons.empty() ? "; none is allowed" : reasons);
  }
  return {};
}

Status Wiring::agree_on_orders(Control& control) {
  std::map<uint64_t, uint32_t> tellers;  // by structure
  std::vector<NodeMember> members;
  for (uint32_t r = 0; r < nranks_; ++r) {
    const RankCard& card = cards_[r];
    members.push_back({card.host, card.structure, card.gpu});
    if (card.structure != 0 && card.gpu != kNone) tellers.emplace(card.structure, r);
  }
  std::map<uint64_t, Machine> machines;
  if (!tellers.empty()) {
    ByteWriter writer;
    const auto own = tellers.find(cards_[self_].structure);
    if (own != tellers.end() && own->second == self_) writer.put_string(around_.structure());
    TUTTI_TRY_ASSIGN(const auto told, control.exchange(writer.take()));
    for (const auto& [structure, rank] : tellers) {
      ByteReader reader(told[rank]);
      TUTTI_TRY_ASSIGN(machines[structure],
                       parse_machine_json("the node of " + describe(Rank{rank}), reader.get_string()));
    }
  }
  node_orders_ = order_ranks(members, machines);
  return {};
}

void Wiring::gather_facts(const std::vector<std::vector<std::byte>>& usable, const std::optional<Parameters>& tuned) {
  facts_.nranks = nranks_;
  facts_.ranks_per_node = orders()[0].ranks_per_node();
  gather_links(usable);
  MachineClass machine = MachineClass::one_last_level_cache;
  std::map<std::string_view, std::vector<CoreSet>> nodes;
  for (const RankCard& card : cards_) {
    nodes[card.host].push_back(card.cores);
    const uint64_t l2_bytes = card.caches.l2_bytes;
    if (l2_bytes != 0) facts_.l2_bytes = facts_.l2_bytes == 0 ? l2_bytes : std::min(facts_.l2_bytes, l2_bytes);
    if (card.caches.last_level_caches > 1) machine = MachineClass::several_last_level_caches;
  }
  for (const auto& [host, ranks] : nodes) {
    const auto nranks = static_cast<uint32_t>(ranks.size()), ncores = count_cores(ranks);
    if (uint64_t{nranks} * facts_.crowded_cores > uint64_t{facts_.crowded_ranks} * ncores) {
      facts_.crowded_ranks = nranks;
      facts_.crowded_cores = ncores;
    }
    if (host != cards_[self_].host) continue;
    ranks_here_ = static_cast<int>(nranks);
    cores_here_ = static_cast<int>(ncores);
  }
  facts_.parameters = tuned ? *tuned : built_in_parameters(machine);
}

void Wiring::gather_links(const std::vector<std::vector<std::byte>>& usable) {
  facts_.max_message_bytes = loopback_->max_message_bytes();
  std::vector<bool> used(offers_.size(), false);
  for (uint32_t a = 0; a < nranks_; ++a)
    for (uint32_t b = 0; b < nranks_; ++b) {
      if (a == b) continue;
      const size_t route = route_between(usable, a, b);
      if (route == kNoRoute) continue;  // those two report it
      used[route] = true;
      facts_.max_message_bytes = std::min(facts_.max_message_bytes, cards_[a].ways[route].max_message_bytes);
      const LinkKind kind = offers_[route].mapped              ? LinkKind::mapped
                            : cards_[a].host == cards_[b].host ? LinkKind::tcp_one_host
                                                               : LinkKind::tcp_between_hosts;
      facts_.links = std::max(facts_.links, kind);
      if (cards_[a].host == cards_[b].host) facts_.near_links = std::max(facts_.near_links, kind);
    }
  for (size_t i = 0; i < offers_.size(); ++i)
    if (used[i]) transport_list_ += fmt::format("{}{}", transport_list_.empty() ? "" : ",", offers_[i].name);
  // One rank with a device is all of one.
  all_p2p_ =
      std::ranges::all_of(cards_, &RankCard::has_device) && (transport_list_.empty() || transport_list_ == "p2p");
  if (transport_list_.empty()) transport_list_ = "self";
  // A kernel's FIFOs, also those to itself and to its proxy, have slots of one size.
  for (const RankCard& card : cards_)
    if (card.has_device) facts_.max_message_bytes = std::min(facts_.max_message_bytes, card.device_slot_bytes);
  if (device_) proxy_ = std::make_unique<Proxy>(*device_, *this, facts_.max_message_bytes);
}

Status Wiring::check_host_route(Rank peer) const {
  if (peer == self_ || host_route_[peer] != kNoRoute) return {};
  return invalid_usage("only p2p connects {} and {}, which the host itself cannot use", describe(self_),
                       describe(peer));
}

Result<SendEnd*> Wiring::send_end(const Peer& peer) {
  std::unique_ptr<SendEnd>& end = sends_[link_key(peer)];
  if (!end) {
    TUTTI_TRY(check_host_route(peer.rank));
    TUTTI_TRY_ASSIGN(auto link, use_transport(peer.rank).open_send(peer.rank, peer.channel));
    end = std::make_unique<SendEnd>();
    end->link = std::move(link);
    end->peer = peer.rank;
  }
  return end.get();
}

Result<RecvLink*> Wiring::recv_link(const Peer& peer) {
  std::unique_ptr<RecvLink>& link = recvs_[link_key(peer)];
  if (!link) {
    TUTTI_TRY(check_host_route(peer.rank));
    TUTTI_TRY_ASSIGN(link, use_transport(peer.rank).open_recv(peer.rank, peer.channel));
  }
  return link.get();
}

Transport& Wiring::use_transport(Rank peer) {
  Transport& transport = host_transport_for(peer);
  if (std::find(in_use_.begin(), in_use_.end(), &transport) == in_use_.end()) {
    in_use_.push_back(&transport);
    if (peer != self_ && !offers_[host_route_[peer]].mapped) pushing_.push_back(&transport);
  }
  return transport;
}

Status Wiring::progress() {
  for (Transport* transport : pushing_) TUTTI_TRY(transport->progress());
  if (proxy_ && proxy_->used()) TUTTI_TRY(proxy_->progress());
  return {};
}

bool Wiring::drained() const {
  if (proxy_ && !proxy_->drained()) return false;
  return std::all_of(pushing_.begin(), pushing_.end(), [](const Transport* transport) { return transport->drained(); });
}

bool Wiring::prepare_wait(std::vector<pollfd>& descriptors) {
  // A kernel that posts to the proxy wakes nobody: give up the core, but only for a moment.
  bool quiet = !proxy_ || !proxy_->used();
  if (!quiet) ::sched_yield();
  if (device_) descriptors.push_back({device_event_.get(), POLLIN, 0});
  for (Transport* transport : in_use_) quiet &= transport->prepare_wait(descriptors);
  return quiet;
}

void Wiring::finish_wait() {
  for (Transport* transport : in_use_) transport->finish_wait();
  uint64_t ended;
  if (device_) [[maybe_unused]]
    const auto read = ::read(device_event_.get(), &ended, sizeof ended);
}

bool Wiring::by_p2p(Rank peer) const { return peer == self_ || offers_[route_[peer]].name == "p2p"; }

Result<dev::SendFifo> Wiring::send_fifo(const Peer& peer) {
  return by_p2p(peer.rank) ? p2p_->send_fifo(peer) : proxy_->send_fifo(peer);
}

Result<dev::RecvFifo> Wiring::recv_fifo(const Peer& peer) {
  return by_p2p(peer.rank) ? p2p_->recv_fifo(peer) : proxy_->recv_fifo(peer);
}

Status Wiring::check_peers() {
  for (Transport* transport : in_use_) TUTTI_TRY(transport->check_peers());
  return {};
}

}  // namespace tutti
