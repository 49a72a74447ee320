// TcpTransport: one rank's listener, connections and links. See tcp.h for what it promises.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "transports/tcp/acceptor.h"
#include "transports/tcp/recv_channel.h"
#include "transports/tcp/send_stripe.h"

namespace tutti::tcp {

class TcpTransport final : public Transport {
 public:
  static Result<std::unique_ptr<Transport>> create(const TransportContext& context, const TcpOptions& options);

  std::string_view name() const override { return "tcp"; }
  std::vector<std::byte> address() const override;
  size_t max_message_bytes() const override { return kMaxMessageBytes; }
  Status set_peers(std::vector<std::vector<std::byte>> addresses, std::vector<std::string> descriptions) override;
  std::string unreachable_reason(Rank peer) const override;
  Result<std::unique_ptr<SendLink>> open_send(Rank peer, ChannelId channel) override;
  Result<std::unique_ptr<RecvLink>> open_recv(Rank peer, ChannelId channel) override;
  Status progress() override;
  bool drained() const override;
  bool prepare_wait(std::vector<pollfd>& descriptors) override;
  void finish_wait() override {}
  Status check_peers() override;

  // For links. Nothing here depends on the size of a message; the limit only tells sizes from garbage.
  static constexpr size_t kMaxMessageBytes = size_t{1} << 30;
  const TcpOptions& options() const { return settings_.options; }
  // Advances the stripe, and from progress() for as long as it has something left.
  Status advance(SendStripe& stripe);
  // The send link ends: stripes that only wait to write what they own go on without it.
  void retire(std::vector<std::unique_ptr<SendStripe>> stripes);
  // The receive link ends: its connections are closed and later ones dropped.
  void close_recv(Rank source, ChannelId channel);

 private:
  // Both ends of a (source, channel) as far as they are there.
  struct Inbound {
    std::unique_ptr<RecvChannel> channel;  // null once closed
    bool opened = false;
  };

  TcpTransport(const TransportContext& context, const TcpOptions& options, std::vector<NetworkInterface> interfaces);
  void find_rails(std::span<const Address> addresses);
  std::vector<bool> try_rails(Rank peer, std::span<const Rail> shared) const;
  // Where two hosts share several networks: how many, and the ways to the peer on those that work.
  struct Rails {
    size_t networks = 1;
    std::vector<PeerEnd> ends;  // empty: the one in peers_
  };
  // The connections of a link; of these, those that large messages are spread over.
  size_t stripes_to(const Rails& rails) const;
  size_t parts_to(const Rails& rails) const;
  std::string reason_against(Rank peer, std::span<const std::byte> bytes, Address& address) const;
  Status check_end(Rank peer, ChannelId channel) const;
  Inbound& inbound(Rank source, ChannelId channel);
  Status accept_guests();
  void welcome(Guest guest);
  // The stripe has gone as far as it can: it is listed or unlisted, and a connection that it made may bring answers.
  void note(SendStripe& stripe, const Status& status);
  void offer(SendStripe& stripe, std::shared_ptr<Connection> connection);
  bool awaits_connections();

  static uint32_t key_of(Rank rank, ChannelId channel) { return rank * kMaxChannels + channel; }

  const TransportContext context_;
  const std::vector<NetworkInterface> interfaces_;  // the best first
  const NetworkInterface& interface_ = interfaces_[0];
  ConnectionSettings settings_;
  uint64_t host_ = 0;
  std::unique_ptr<Acceptor> acceptor_;

  std::vector<PeerEnd> peers_;
  std::vector<Rails> rails_;
  std::vector<Cookie> cookies_;
  std::vector<std::string> descriptions_, unreachable_;

  std::unordered_map<uint32_t, Inbound> inbound_;
  std::vector<RecvChannel*> incomplete_;  // of opened receive links, those that may still await connections
  std::unordered_set<uint32_t> opened_sends_;
  std::vector<SendStripe*> stripes_;  // of all send links
  std::vector<SendStripe*> busy_;     // those with something to do
  std::vector<std::unique_ptr<SendStripe>> ownerless_;
  std::vector<Guest> guests_;
  uint32_t calls_ = 0;
  Status failure_;  // the first of any outgoing connection or of the listener; sticky
};

}  // namespace tutti::tcp
