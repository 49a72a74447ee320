// UcxTransport: one rank's worker, the endpoints to its peers, and their links.
#pragma once

#include <map>

#include "transports/ucx/links.h"

namespace tutti::ucx {

class UcxTransport final : public Transport {
 public:
  static Result<std::unique_ptr<Transport>> create(const TransportContext& context);
  ~UcxTransport() override;

  std::string_view name() const override { return "ucx"; }
  std::vector<std::byte> address() const override { return address_; }
  size_t max_message_bytes() const override { return size_t{1} << 20; }
  Status set_peers(std::vector<std::vector<std::byte>> addresses, std::vector<std::string> descriptions) override;
  std::string unreachable_reason(Rank peer) const override;
  Result<std::unique_ptr<SendLink>> open_send(Rank peer, ChannelId channel) override;
  Result<std::unique_ptr<RecvLink>> open_recv(Rank peer, ChannelId channel) override;
  Status progress() override;
  bool drained() const override;
  bool prepare_wait(std::vector<pollfd>& descriptors) override;
  void finish_wait() override {}
  Status check_peers() override;

 private:
  struct Peer {
    std::vector<std::byte> worker_address;
    int process = 0;  // 0: on another host
    std::string description, unreachable;
    std::unique_ptr<PeerEnd> spare;  // connected, for the first link
    std::unique_ptr<PeerEnd> end;    // with links
    Pending leaving;  // a receive, of the word by which the peer says so
    char word = 0;
  };
  explicit UcxTransport(const TransportContext& context) : context_(context) {}
  std::unique_ptr<PeerEnd> make_end(Rank rank, const Peer& peer);
  PeerEnd& end_of(Rank peer);
  Status check_end(Rank peer, ChannelId channel) const;
  void leave();
  void abandon();
  bool settled() const;

  const TransportContext context_;
  std::unique_ptr<Worker> worker_;
  std::string host_;
  std::vector<std::byte> address_;
  std::vector<std::unique_ptr<Peer>> peers_;
  bool moved_ = false;  // something, since the last preparation to wait
  std::map<std::pair<uint32_t, uint16_t>, std::shared_ptr<Outbox>> outboxes_;
  std::map<std::pair<uint32_t, uint16_t>, std::shared_ptr<Inbox>> inboxes_;
};

}  // namespace tutti::ucx
