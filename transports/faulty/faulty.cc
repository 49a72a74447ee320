#include "transports/faulty/faulty.h"

#include <utility>

#include "base/rng.h"

namespace tutti {
namespace {

// What the links of one transport share.
struct Faults {
  explicit Faults(const FaultOptions& o) : options(o), rng(o.seed) {}

  // Counts a call; an error from the chosen one on.
  Status count_call() { return options.fail_at_call && calls++ >= *options.fail_at_call ? options.failure : Status(); }
  bool dead(Rank peer) const {
    return options.death && options.death->peer == peer && released_of_mortal >= options.death->after_messages;
  }

  const FaultOptions options;
  Rng rng;
  uint64_t calls = 0;
  uint64_t released_of_mortal = 0;
  // A link has said "not yet" though it may have had something: the rank must ask again instead of sleeping.
  bool concealed = false;
};

// Decides whether a link's next answer is withheld.
class Veil {
 public:
  explicit Veil(Faults& faults) : faults_(faults) {}

  // Errors stay: one that was told is not withheld afterwards.
  Status failure;

  // Before looking: an answer that is "not yet" for no reason.
  bool spurious() {
    const bool yes = faults_.rng.below(100) < faults_.options.spurious_percent;
    faults_.concealed |= yes;
    return yes;
  }
  // Something is there: true while it is to be withheld.
  bool conceal() {
    if (!drawn_) polls_left_ = faults_.rng.below(faults_.options.delay_polls_max + uint64_t{1});
    drawn_ = true;
    if (polls_left_ == 0) return false;
    --polls_left_;
    faults_.concealed = true;
    return true;
  }
  // The next message gets a delay of its own.
  void next() { drawn_ = false; }

 private:
  Faults& faults_;
  bool drawn_ = false;
  uint64_t polls_left_ = 0;
};

class FaultySendLink final : public SendLink {
 public:
  FaultySendLink(std::unique_ptr<SendLink> inner, Faults& faults, Rank peer)
      : inner_(std::move(inner)), faults_(faults), veil_(faults), peer_(peer) {}
  bool mapped() const override { return inner_->mapped(); }

  Result<Room> claim(size_t bytes) override {
    TUTTI_TRY(veil_.failure);
    TUTTI_TRY(faults_.count_call());
    if (faults_.dead(peer_) || veil_.spurious()) return Room{};
    auto room = inner_->claim(bytes);
    if (!room.ok()) return veil_.failure = room.status();
    return *room && veil_.conceal() ? Room{} : *room;
  }
  void post(size_t bytes, const Stamp& stamp) override {
    inner_->post(bytes, stamp);
    veil_.next();
  }
  Result<bool> lend(const std::byte* data, size_t bytes, const Stamp& stamp) override {
    return try_to_send([&] { return inner_->lend(data, bytes, stamp); });
  }
  Result<bool> put(std::span<const ConstPiece> pieces, const Stamp& stamp) override {
    return try_to_send([&] { return inner_->put(pieces, stamp); });
  }
  uint64_t retired() override { return inner_->retired(); }
  void detach() override { inner_->detach(); }

 private:
  Result<bool> try_to_send(auto send) {
    TUTTI_TRY(veil_.failure);
    TUTTI_TRY(faults_.count_call());
    // What was sent cannot be taken back, so the delay comes before the look.
    if (faults_.dead(peer_) || veil_.spurious() || veil_.conceal()) return false;
    Result<bool> taken = send();
    if (!taken.ok()) return veil_.failure = taken.status();
    if (*taken) veil_.next();
    return taken;
  }

  std::unique_ptr<SendLink> inner_;
  Faults& faults_;
  Veil veil_;
  Rank peer_;
};

class FaultyRecvLink final : public RecvLink {
 public:
  FaultyRecvLink(std::unique_ptr<RecvLink> inner, Faults& faults, Rank peer)
      : inner_(std::move(inner)), faults_(faults), veil_(faults), peer_(peer) {}
  bool mapped() const override { return inner_->mapped(); }

  Result<Arrival> receive(std::span<const MutablePiece> into, size_t bytes, const Stamp& stamp) override {
    TUTTI_TRY(veil_.failure);
    TUTTI_TRY(faults_.count_call());
    if (faults_.dead(peer_) || veil_.spurious()) return Arrival{};
    // An arrival is told once, so a concealed one is kept.
    if (held_.state == Arrival::State::pending) {
      auto arrival = inner_->receive(into, bytes, stamp);
      if (!arrival.ok()) return veil_.failure = arrival.status();
      held_ = *arrival;
    }
    if (held_.state == Arrival::State::pending || veil_.conceal()) return Arrival{};
    return held_.state == Arrival::State::mismatch ? held_ : std::exchange(held_, Arrival{});
  }
  void release() override {
    inner_->release();
    veil_.next();
    if (faults_.options.death && faults_.options.death->peer == peer_) ++faults_.released_of_mortal;
  }
  bool grant(std::byte* place, size_t bytes) override { return inner_->grant(place, bytes); }

 private:
  std::unique_ptr<RecvLink> inner_;
  Faults& faults_;
  Veil veil_;
  Rank peer_;
  Arrival held_;
};

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, const FaultOptions& options)
      : inner_(std::move(inner)), faults_(options) {}

  std::string_view name() const override { return inner_->name(); }
  std::vector<std::byte> address() const override { return inner_->address(); }
  size_t max_message_bytes() const override { return inner_->max_message_bytes(); }
  Status set_peers(std::vector<std::vector<std::byte>> addresses, std::vector<std::string> descriptions) override {
    descriptions_ = descriptions;
    return inner_->set_peers(std::move(addresses), std::move(descriptions));
  }
  std::string unreachable_reason(Rank peer) const override { return inner_->unreachable_reason(peer); }

  Result<std::unique_ptr<SendLink>> open_send(Rank peer, ChannelId channel) override {
    TUTTI_TRY_ASSIGN(auto link, inner_->open_send(peer, channel));
    return std::unique_ptr<SendLink>(std::make_unique<FaultySendLink>(std::move(link), faults_, peer));
  }
  Result<std::unique_ptr<RecvLink>> open_recv(Rank peer, ChannelId channel) override {
    TUTTI_TRY_ASSIGN(auto link, inner_->open_recv(peer, channel));
    return std::unique_ptr<RecvLink>(std::make_unique<FaultyRecvLink>(std::move(link), faults_, peer));
  }

  Status progress() override { return inner_->progress(); }
  bool drained() const override { return inner_->drained(); }
  bool prepare_wait(std::vector<pollfd>& descriptors) override {
    // What is concealed will not signal itself: the rank has to ask again.
    if (std::exchange(faults_.concealed, false)) return false;
    return inner_->prepare_wait(descriptors);
  }
  void finish_wait() override { inner_->finish_wait(); }
  Status check_peers() override {
    if (faults_.options.death && faults_.dead(faults_.options.death->peer))
      return fail(tuttiRemoteError, "{} has died: injected", descriptions_[faults_.options.death->peer]);
    return inner_->check_peers();
  }

 private:
  std::unique_ptr<Transport> inner_;
  Faults faults_;
  std::vector<std::string> descriptions_;
};

}  // namespace

std::unique_ptr<Transport> make_faulty_transport(std::unique_ptr<Transport> inner, const FaultOptions& options) {
  return std::make_unique<FaultyTransport>(std::move(inner), options);
}

}  // namespace tutti
