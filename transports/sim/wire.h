// Wire: the state of one simulated link, and the Core that owns all of them and the clock.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "base/rng.h"
#include "transports/sim/sim.h"

namespace tutti {
namespace sim {

struct FreeAligned {
  void operator()(std::byte* p) const;
};
// Exactly `bytes` long, 64-byte aligned, filled with a pattern that no test sends.
using SlotMemory = std::unique_ptr<std::byte, FreeAligned>;
SlotMemory make_room(size_t bytes);

struct Message {
  Stamp stamp;
  size_t bytes = 0;
  SlotMemory data;                 // what has been written (mapped) or read from the source (put)
  const std::byte* elsewhere = nullptr;  // mapped: it was lent, or lies where it was granted
  std::vector<ConstPiece> source;  // put: where the rest lies
  size_t read = 0;                 // put: bytes that have left
  size_t arrived = 0;
  bool announced = false;  // its stamp has arrived
  bool complete = false;   // all of it has arrived
  bool left = false;       // put: all of it has left

  const std::byte* mapped_data() const { return elsewhere ? elsewhere : data.get(); }
};

struct Wire {
  Rank source, destination;
  std::deque<Message> messages;  // not yet released; the oldest is number `released`
  uint64_t posted = 0, released = 0;
  uint64_t credits = 0;  // releases that the sender knows of
  uint64_t retired = 0;
  uint64_t in_flight = 0;   // arrivals and credits under way
  Nanoseconds free_at = 0;  // when the wire has sent all that it was given
  Nanoseconds last_arrival = 0, last_credit = 0, last_retirement = 0;
  bool cut = false;  // what has not left will never leave
  std::map<uint64_t, MutablePiece> grants;  // mapped: where the receiver wants messages, by number

  // Put: where the receiver wants the oldest message, once it asked.
  std::vector<MutablePiece> into;
  bool wanted = false;
  Stamp wanted_stamp;
  size_t wanted_bytes = 0;
  size_t landed = 0;

  bool sender_waits = false, receiver_waits = false;
  bool sender_open = false, receiver_open = false;

  Message& number(uint64_t n) { return messages[n - released]; }
  Message* oldest() { return messages.empty() || !messages.front().announced ? nullptr : &messages.front(); }
  bool matches(const Message& m) const { return m.stamp == wanted_stamp && m.bytes == wanted_bytes; }
};

// Copies bytes [from, to) of the concatenated pieces to `out`, or from `in` into them.
void gather(std::span<const ConstPiece> pieces, size_t from, size_t to, std::byte* out);
void scatter(const std::byte* in, size_t from, size_t to, std::span<const MutablePiece> pieces);

}  // namespace sim

class SimNetwork::Core final : public Clock {
 public:
  explicit Core(const SimOptions& options);
  Nanoseconds now() const override { return now_; }
  bool advance();
  uint64_t events() const { return happened_; }

  const SimOptions options;

  enum class Presence : uint8_t { here, left, lost };
  struct RankState {
    Presence presence = Presence::here;
    bool noticed = false;  // the others know of the loss
  };
  std::vector<RankState> ranks;

  // The wire from `source` to `destination`; made when first asked for.
  sim::Wire& wire(Rank source, Rank destination, ChannelId channel);
  void send_mapped(sim::Wire& wire, sim::Message message);
  void send_put(sim::Wire& wire, sim::Message message);
  void send_credit(sim::Wire& wire);
  // Stores in the receiver's memory what has arrived of the oldest message.
  void land(sim::Wire& wire);
  // Nothing more leaves this wire, or any wire of a rank.
  void cut(sim::Wire& wire) { wire.cut = true; }
  void cut_all_of(Rank source);
  bool drained(Rank source) const;
  // Whether this end takes a shortcut this time.
  bool chance() { return rng_.below(2) == 0; }

 private:
  struct Event {
    Nanoseconds at;
    uint64_t order;  // of scheduling: breaks ties
    std::function<void()> happen;
    bool operator<(const Event& other) const { return std::tie(at, order) > std::tie(other.at, other.order); }
  };
  void schedule(Nanoseconds at, std::function<void()> happen);
  Nanoseconds latency() { return options.latency_min + rng_.below(options.latency_max - options.latency_min + 1); }
  Nanoseconds wire_time(size_t bytes) const {
    return options.bytes_per_us ? bytes * kMicrosecond / options.bytes_per_us : 0;
  }
  void leave(sim::Wire& wire, uint64_t number, size_t to, bool last);

  Rng rng_;
  Nanoseconds now_ = 0;
  uint64_t scheduled_ = 0, happened_ = 0;
  std::vector<Event> events_;  // a heap, the next one first
  std::map<std::tuple<Rank, Rank, ChannelId>, std::unique_ptr<sim::Wire>> wires_;
};

}  // namespace tutti
