// RankLinks: a LinkSource over transports that a test has made; opens each end once, keeps it, and counts how often the
// engine has put links copy what they have not sent yet, and mapped links lend.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "engine/link_source.h"

namespace tutti {

class CountedSendLink final : public SendLink {
 public:
  CountedSendLink(std::unique_ptr<SendLink> inner, uint64_t& detaches, uint64_t& lends)
      : inner_(std::move(inner)), detaches_(detaches), lends_(lends) {}
  bool mapped() const override { return inner_->mapped(); }
  Result<Room> claim(size_t bytes) override { return inner_->claim(bytes); }
  void post(size_t bytes, const Stamp& stamp) override { inner_->post(bytes, stamp); }
  Result<bool> lend(const std::byte* data, size_t bytes, const Stamp& stamp) override {
    TUTTI_TRY_ASSIGN(const bool lent, inner_->lend(data, bytes, stamp));
    lends_ += lent;
    return lent;
  }
  Result<bool> put(std::span<const ConstPiece> pieces, const Stamp& stamp) override {
    return inner_->put(pieces, stamp);
  }
  uint64_t retired() override { return inner_->retired(); }
  void detach() override {
    ++detaches_;
    inner_->detach();
  }

 private:
  std::unique_ptr<SendLink> inner_;
  uint64_t& detaches_;
  uint64_t& lends_;
};

// `route` names the transport towards a peer. Destroy executions first, then this, then the transports.
class RankLinks final : public LinkSource {
 public:
  explicit RankLinks(std::function<Transport&(Rank)> route) : route_(std::move(route)) {}

  Result<SendEnd*> send_end(const Peer& peer) override {
    std::unique_ptr<SendEnd>& end = sends_[{peer.rank, peer.channel}];
    if (!end) {
      TUTTI_TRY_ASSIGN(auto link, route_(peer.rank).open_send(peer.rank, peer.channel));
      end = std::make_unique<SendEnd>(
          SendEnd{std::make_unique<CountedSendLink>(std::move(link), detaches_, lends_), 0, peer.rank});
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

  uint64_t detaches() const { return detaches_; }
  uint64_t lends() const { return lends_; }

 private:
  using Key = std::pair<uint32_t, uint16_t>;
  std::function<Transport&(Rank)> route_;
  uint64_t detaches_ = 0, lends_ = 0;
  std::map<Key, std::unique_ptr<SendEnd>> sends_;
  std::map<Key, std::unique_ptr<RecvLink>> recvs_;
};

}  // namespace tutti
