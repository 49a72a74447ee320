// Wiring: the composition root. The only code that names concrete transports; it makes them, agrees with the other
// ranks which one serves each pair, and opens links when a plan first needs them.
#pragma once

#include <unordered_map>

#include "base/fd.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/roster.h"
#include "comm/surroundings.h"
#include "cuda/device.h"
#include "cuda/proxy.h"
#include "engine/link_source.h"
#include "plan/rank_order.h"
#include "topo/caches.h"
#include "topo/cores.h"
#include "tune/facts.h"

namespace tutti {

class P2pTransport;

class Wiring final : public LinkSource, private FifoSource {
 public:
  // Collective over all ranks of `control`. Errors name the transports, and why each does not serve.
  static Result<std::unique_ptr<Wiring>> create(const Config& config, std::vector<std::byte> key, Control& control,
                                                Rank self, Rank nranks, Device* device);
  ~Wiring() override;

  Result<SendEnd*> send_end(const Peer& peer) override;
  Result<RecvLink*> recv_link(const Peer& peer) override;

  // Of a rank with a device: FIFOs for its kernels, and the descriptor that becomes readable when one of them has
  // ended.
  FifoSource& fifos() { return *this; }
  int device_event() const { return device_event_.get(); }
  // Every rank has a device, and all of them reach each other.
  bool all_p2p() const { return all_p2p_; }

  const Facts& facts() const { return facts_; }
  // Where each rank stands in plans, by lane; at least one.
  std::span<const RankOrder> orders() const { return node_orders_.orders; }
  int ranks_here() const { return ranks_here_; }
  int cores_here() const { return cores_here_; }
  std::string_view transport_name(Rank peer) const { return transport_for(peer).name(); }
  // Those that serve some pair of different ranks ("self" for a single rank), comma-separated.
  const std::string& transport_list() const { return transport_list_; }

  // All transports with an open link together; see transport.h. The others have nothing under way.
  Status progress();
  bool drained() const;
  bool prepare_wait(std::vector<pollfd>& descriptors);
  void finish_wait();
  Status check_peers();

 private:
  // One transport that the configuration allows; without `transport`, why this rank could not make it.
  struct Offer {
    std::string_view name;
    bool mapped = false;
    std::unique_ptr<Transport> transport;
    std::string why_not;
  };
  // What a rank tells the others of itself.
  struct RankCard {
    std::string host;  // host_identity(), and the simulated node
    bool has_device = false;
    uint64_t device_slot_bytes = 0;
    CoreSet cores;
    Caches caches;
    uint64_t structure = 0;  // see NodeMember
    int32_t gpu = kNone;
    struct Way {
      uint64_t max_message_bytes = 0;
      std::vector<std::byte> address;  // empty: not offered
      std::string why_not;             // then
    };
    std::vector<Way> ways;  // one for each of offers_
  };
  Wiring(Rank self, Rank nranks, Device* device) : self_(self), nranks_(nranks), device_(device) {}
  Result<dev::SendFifo> send_fifo(const Peer& peer) override;
  Result<dev::RecvFifo> recv_fifo(const Peer& peer) override;
  // Whose memory this rank's kernels reach.
  bool by_p2p(Rank peer) const;
  Status check_host_route(Rank peer) const;
  Status make_device_ends(const TransportContext& context);
  Status make_offers(const TransportContext& context);
  Status check_offers(const NameList& wanted) const;
  // The transport that serves `peer`, from now on in use.
  Transport& use_transport(Rank peer);
  Transport& transport_for(Rank peer) const { return peer == self_ ? *loopback_ : *offers_[route_[peer]].transport; }
  // For links of the host: p2p has none.
  Transport& host_transport_for(Rank peer) const {
    return peer == self_ ? *loopback_ : *offers_[host_route_[peer]].transport;
  }
  std::vector<std::byte> own_card(const std::string& host, const std::vector<std::string>& agreement) const;
  Status read_cards(const std::vector<std::vector<std::byte>>& blobs, const std::vector<std::string>& agreement);
  Status check_agreement(const std::vector<std::string>& mine, const std::vector<std::string>& theirs, Rank peer) const;
  Status set_peers();
  std::vector<std::byte> usable_offers() const;
  Status choose_routes(const std::vector<std::vector<std::byte>>& usable);
  std::string why_not(size_t offer, Rank peer) const;
  // Each structure once, told by the first rank that has it; no exchange where nobody knows one. Then the orders.
  Status agree_on_orders(Control& control);
  void gather_facts(const std::vector<std::vector<std::byte>>& usable, const std::optional<Parameters>& tuned);
  void gather_links(const std::vector<std::vector<std::byte>>& usable);
  void log_routes() const;
  std::string describe(Rank rank) const;
  // Whether this is the first rank of its host.
  bool first_here() const;

  const Rank self_;
  const Rank nranks_;
  Config config_;  // with far_cards; outlives the transports
  std::vector<Introduction> members_;
  std::vector<Offer> offers_;  // in order of preference
  std::string left_out_;       // the transports that are none of them, and why
  std::unique_ptr<Transport> loopback_;
  std::vector<RankCard> cards_;
  std::vector<size_t> route_;       // by peer: index into offers_
  std::vector<size_t> host_route_;  // the same without p2p
  Device* const device_;            // null: none
  Fd device_event_;
  P2pTransport* p2p_ = nullptr;  // owned by its offer, or by own_p2p_ where the configuration does not offer it
  std::unique_ptr<Transport> own_p2p_;
  std::unique_ptr<Proxy> proxy_;
  bool all_p2p_ = false;
  Facts facts_;
  Surroundings around_;
  NodeOrders node_orders_;
  int ranks_here_ = 1, cores_here_ = 1;
  std::string transport_list_;
  std::vector<Transport*> in_use_;   // those with an open link
  std::vector<Transport*> pushing_;  // of these, those with put links: a mapped transport has no bytes under way
  std::unordered_map<uint32_t, std::unique_ptr<SendEnd>> sends_;  // by (peer, channel)
  std::unordered_map<uint32_t, std::unique_ptr<RecvLink>> recvs_;
};

}  // namespace tutti
