// RankLinks: a LinkSource over transports that a test has made; opens each end once and keeps it.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "engine/link_source.h"

namespace tutti {

// `route` names the transport towards a peer. Destroy executions first, then this, then the transports.
class RankLinks final : public LinkSource {
 public:
  explicit RankLinks(std::function<Transport&(Rank)> route) : route_(std::move(route)) {}

  Result<SendEnd*> send_end(const Peer& peer) override {
    std::unique_ptr<SendEnd>& end = sends_[{peer.rank, peer.channel}];
    if (!end) {
      TUTTI_TRY_ASSIGN(auto link, route_(peer.rank).open_send(peer.rank, peer.channel));
      end = std::make_unique<SendEnd>(SendEnd{std::move(link), 0, peer.rank});
    }
    return end.get();
  }

  Result<RecvLink*> recv_link(const Peer& peer) override {
    std::unique_ptr<RecvLink>& link = recvs_[{peer.rank, peer.channel}];
    if (!link) {
      TUTTI_TRY_ASSIGN(link, route_(peer.rank).open_recv(peer.rank, peer.channel));
    }
    return link.get();
  }

 private:
  using Key = std::pair<uint32_t, uint16_t>;
  std::function<Transport&(Rank)> route_;
  std::map<Key, std::unique_ptr<SendEnd>> sends_;
  std::map<Key, std::unique_ptr<RecvLink>> recvs_;
};

}  // namespace tutti
