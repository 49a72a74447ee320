#include "transports/sim/sim.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "transports/sim/wire.h"

namespace tutti {
namespace {

using sim::Message;
using sim::Wire;
using Core = SimNetwork::Core;
using Presence = Core::Presence;

// What the two ends and the transport need to know of each other.
struct End {
  std::shared_ptr<Core> core;
  Wire& wire;
  Rank self, peer;
  std::string description;  // of the peer

  bool self_lost() const { return core->ranks[self].presence == Presence::lost; }
  Status own_loss() const {
    return fail(tuttiSystemError, "rank {} is lost: the simulation says so at {} ns", uint32_t{self}, core->now());
  }
  // Why the peer will do nothing more on this wire, if so.
  Status peer_gone() const {
    const Core::RankState& state = core->ranks[peer];
    if (wire.in_flight > 0) return {};
    if (state.presence == Presence::left) return fail(tuttiRemoteError, "{} has left", description);
    if (state.noticed) return fail(tuttiRemoteError, "{} has died", description);
    return {};
  }
};

class SimSendLink final : public SendLink {
 public:
  explicit SimSendLink(End end) : end_(std::move(end)) {}
  ~SimSendLink() override {
    if (!end_.core->options.mapped && !all_detached()) end_.core->cut(wire());
    wire().sender_waits = false;
  }
  bool mapped() const override { return end_.core->options.mapped; }

  Result<Room> claim(size_t bytes) override {
    if (!mapped()) return fail(tuttiInternalError, "claim() on a put link of the sim transport");
    TUTTI_TRY_ASSIGN(const bool credit, has_credit(bytes));
    if (!credit) return Room{};
    const auto grant = wire().grants.find(wire().posted);
    if (granted_ || (!room_ && grant != wire().grants.end() && grant->second.bytes == bytes && end_.core->chance())) {
      granted_ = grant->second.data;
      return Room{granted_, true};
    }
    if (!room_ || room_bytes_ < bytes) {
      room_ = sim::make_room(bytes);
      room_bytes_ = bytes;
    }
    return Room{room_.get()};
  }
  void post(size_t bytes, const Stamp& stamp) override {
    const std::byte* const elsewhere = std::exchange(granted_, nullptr);
    if (end_.self_lost()) return;
    end_.core->send_mapped(
        wire(), Message{.stamp = stamp, .bytes = bytes, .data = std::move(room_), .elsewhere = elsewhere});
  }
  Result<bool> lend(const std::byte* data, size_t bytes, const Stamp& stamp) override {
    if (!mapped() || !end_.core->options.shares_memory) return false;
    TUTTI_TRY_ASSIGN(const bool credit, has_credit(bytes));
    if (!credit || !end_.core->chance()) return false;
    end_.core->send_mapped(wire(), Message{.stamp = stamp, .bytes = bytes, .elsewhere = data});
    return true;
  }

  Result<bool> put(std::span<const ConstPiece> pieces, const Stamp& stamp) override {
    if (mapped()) return fail(tuttiInternalError, "put() on a mapped link of the sim transport");
    const size_t bytes = total_bytes(pieces);
    TUTTI_TRY_ASSIGN(const bool credit, has_credit(bytes));
    if (credit)
      end_.core->send_put(wire(), Message{.stamp = stamp, .bytes = bytes, .source = {pieces.begin(), pieces.end()}});
    return credit;
  }
  uint64_t retired() override { return mapped() ? end_.wire.credits : end_.wire.retired; }
  void detach() override {
    for (Message& m : wire().messages) {
      sim::gather(m.source, m.read, m.bytes, m.data.get());
      m.read = m.bytes;
    }
    wire().retired = wire().posted;
  }

 private:
  Wire& wire() { return end_.wire; }
  Result<bool> has_credit(size_t bytes) {
    if (end_.self_lost()) return end_.own_loss();
    if (bytes > end_.core->options.max_message_bytes)
      return fail(tuttiInternalError, "a message of {} bytes exceeds the simulated network's {}", bytes,
                  end_.core->options.max_message_bytes);
    wire().sender_waits = wire().posted - wire().credits >= end_.core->options.queue_depth;
    if (!wire().sender_waits) return true;
    TUTTI_TRY(end_.peer_gone());
    return false;
  }
  bool all_detached() {
    return std::ranges::all_of(wire().messages, [](const Message& m) { return m.read == m.bytes; });
  }

  End end_;
  sim::SlotMemory room_;
  size_t room_bytes_ = 0;
  std::byte* granted_ = nullptr;  // the claimed room, if it is the receiver's
};

class SimRecvLink final : public RecvLink {
 public:
  explicit SimRecvLink(End end) : end_(std::move(end)) {}
  ~SimRecvLink() override { forget(); }
  bool mapped() const override { return end_.core->options.mapped; }

  Result<Arrival> receive(std::span<const MutablePiece> into, size_t bytes, const Stamp& stamp) override {
    if (end_.self_lost()) return end_.own_loss();
    Wire& wire = end_.wire;
    if (!mapped()) TUTTI_TRY(want(into, bytes, stamp));
    Message* m = wire.oldest();
    wire.receiver_waits = !m || !m->complete;
    if (m && (m->stamp != stamp || m->bytes != bytes))
      return Arrival{.state = Arrival::State::mismatch, .stamp = m->stamp, .bytes = m->bytes};
    if (!mapped()) end_.core->land(wire);
    if (!wire.receiver_waits)
      return Arrival{.state = Arrival::State::arrived, .data = mapped() ? m->mapped_data() : nullptr, .stamp = stamp,
                     .bytes = bytes};
    TUTTI_TRY(end_.peer_gone());
    return Arrival{};
  }

  void release() override {
    Wire& wire = end_.wire;
    wire.messages.pop_front();
    wire.grants.erase(wire.released);
    ++wire.released;
    forget();
    end_.core->send_credit(wire);
  }

  bool grant(std::byte* place, size_t bytes) override {
    Wire& wire = end_.wire;
    const uint64_t held = wire.oldest() && wire.oldest()->complete ? 1 : 0;
    settled_ = std::max(settled_, wire.released + held);
    if (settled_ >= wire.released + held + end_.core->options.queue_depth) return false;
    if (place && end_.core->options.shares_memory) wire.grants[settled_] = {place, bytes};
    ++settled_;
    return true;
  }

 private:
  // Remembers where the message is to land, and insists that a repeated call asks for the same.
  Status want(std::span<const MutablePiece> into, size_t bytes, const Stamp& stamp) {
    Wire& wire = end_.wire;
    const auto same = [](const MutablePiece& a, const MutablePiece& b) {
      return a.data == b.data && a.bytes == b.bytes;
    };
    if (wire.wanted) {
      if (wire.wanted_bytes != bytes || wire.wanted_stamp != stamp || !std::ranges::equal(wire.into, into, same))
        return fail(tuttiInternalError, "receive() from {} was repeated with other arguments", end_.description);
      return {};
    }
    if (total_bytes(into) != bytes)
      return fail(tuttiInternalError, "receive() of {} bytes was given {} bytes of room", bytes, total_bytes(into));
    wire.wanted = true;
    wire.wanted_bytes = bytes;
    wire.wanted_stamp = stamp;
    wire.into.assign(into.begin(), into.end());
    return {};
  }
  void forget() {
    end_.wire.wanted = false;
    end_.wire.into.clear();
    end_.wire.landed = 0;
    end_.wire.receiver_waits = false;
  }

  End end_;
  uint64_t settled_ = 0;  // messages of which it is said whether they are granted
};

class SimTransport final : public Transport {
 public:
  SimTransport(std::shared_ptr<Core> core, Rank self) : core_(std::move(core)), self_(self) {}
  ~SimTransport() override {
    Core::RankState& state = core_->ranks[self_];
    if (state.presence == Presence::here) state.presence = Presence::left;
    if (!core_->options.mapped) core_->cut_all_of(self_);
  }

  std::string_view name() const override { return "sim"; }
  std::vector<std::byte> address() const override { return {std::byte{1}}; }
  size_t max_message_bytes() const override { return core_->options.max_message_bytes; }
  Status set_peers(std::vector<std::vector<std::byte>>, std::vector<std::string> descriptions) override {
    descriptions_ = std::move(descriptions);
    return {};
  }
  std::string unreachable_reason(Rank peer) const override {
    return peer < core_->ranks.size() ? "" : "there is no such rank";
  }

  Result<std::unique_ptr<SendLink>> open_send(Rank peer, ChannelId channel) override {
    TUTTI_TRY_ASSIGN(Wire & wire, open(self_, peer, peer, channel, &Wire::sender_open));
    return std::unique_ptr<SendLink>(std::make_unique<SimSendLink>(End{core_, wire, self_, peer, descriptions_[peer]}));
  }
  Result<std::unique_ptr<RecvLink>> open_recv(Rank peer, ChannelId channel) override {
    TUTTI_TRY_ASSIGN(Wire & wire, open(peer, self_, peer, channel, &Wire::receiver_open));
    return std::unique_ptr<RecvLink>(std::make_unique<SimRecvLink>(End{core_, wire, self_, peer, descriptions_[peer]}));
  }

  Status progress() override { return {}; }
  bool drained() const override { return core_->drained(self_); }
  bool prepare_wait(std::vector<pollfd>&) override {
    return std::ranges::none_of(wires_, [&](Wire* w) {
      Message* m = w->oldest();
      const bool can_send = w->sender_waits && w->posted - w->credits < core_->options.queue_depth;
      const bool can_receive = w->receiver_waits && m && m->complete;
      return (w->source == self_ && can_send) || (w->destination == self_ && can_receive);
    });
  }
  void finish_wait() override {}
  Status check_peers() override {
    for (const Wire* w : wires_) {
      const Rank peer = w->source == self_ ? w->destination : w->source;
      if (core_->ranks[peer].noticed) return fail(tuttiRemoteError, "{} has died", descriptions_[peer]);
    }
    return {};
  }

 private:
  Result<std::reference_wrapper<Wire>> open(Rank source, Rank destination, Rank peer, ChannelId channel,
                                            bool Wire::*opened) {
    if (peer >= descriptions_.size() || channel >= kMaxChannels)
      return fail(tuttiInternalError, "there is no simulated link to rank {}, channel {}", uint32_t{peer},
                  uint16_t{channel});
    Wire& wire = core_->wire(source, destination, channel);
    if (std::exchange(wire.*opened, true))
      return fail(tuttiInternalError, "this end of the link to {}, channel {}, has been opened before",
                  descriptions_[peer], uint16_t{channel});
    wires_.push_back(&wire);
    return std::ref(wire);
  }

  std::shared_ptr<Core> core_;
  Rank self_;
  std::vector<std::string> descriptions_;
  std::vector<Wire*> wires_;
};

}  // namespace

SimNetwork::SimNetwork(const SimOptions& options) : core_(std::make_shared<Core>(options)) {}
SimNetwork::~SimNetwork() = default;
const Clock& SimNetwork::clock() const { return *core_; }
std::unique_ptr<Transport> SimNetwork::make_transport(Rank rank) { return std::make_unique<SimTransport>(core_, rank); }
bool SimNetwork::advance_to_next_event() { return core_->advance(); }
bool SimNetwork::lost(Rank rank) const { return core_->ranks[rank].presence == Presence::lost; }
uint64_t SimNetwork::events() const { return core_->events(); }

}  // namespace tutti
