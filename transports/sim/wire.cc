#include "transports/sim/wire.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace tutti {
namespace sim {

constexpr std::align_val_t kAlignment{64};

void FreeAligned::operator()(std::byte* p) const { ::operator delete(p, kAlignment); }

SlotMemory make_room(size_t bytes) {
  SlotMemory room(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
  std::memset(room.get(), 0xe5, bytes);
  return room;
}

namespace {

// Calls visit(piece data + offset, place in the message, bytes) for the parts of the pieces that lie in [from, to).
template <class Pieces, class Visitor>
void for_each_part(const Pieces& pieces, size_t from, size_t to, Visitor&& visit) {
  size_t first = 0;
  for (const auto& piece : pieces) {
    const size_t begin = std::max(from, first), end = std::min(to, first + piece.bytes);
    if (begin < end) visit(piece.data + (begin - first), begin, end - begin);
    first += piece.bytes;
  }
}

}  // namespace

void gather(std::span<const ConstPiece> pieces, size_t from, size_t to, std::byte* out) {
  for_each_part(pieces, from, to,
                [&](const std::byte* data, size_t place, size_t bytes) { std::memcpy(out + place, data, bytes); });
}

void scatter(const std::byte* in, size_t from, size_t to, std::span<const MutablePiece> pieces) {
  for_each_part(pieces, from, to,
                [&](std::byte* data, size_t place, size_t bytes) { std::memcpy(data, in + place, bytes); });
}

}  // namespace sim

using sim::Message;
using sim::Wire;

SimNetwork::Core::Core(const SimOptions& o) : options(o), ranks(o.nranks), rng_(o.seed) {
  if (!options.loss) return;
  const SimOptions::Loss loss = *options.loss;
  schedule(loss.at, [this, loss] {
    ranks[loss.rank].presence = Presence::lost;
    cut_all_of(loss.rank);
  });
  schedule(loss.at + loss.noticed_after, [this, loss] { ranks[loss.rank].noticed = true; });
}

void SimNetwork::Core::schedule(Nanoseconds at, std::function<void()> happen) {
  events_.push_back({std::max(at, now_), scheduled_++, std::move(happen)});
  std::push_heap(events_.begin(), events_.end());
}

bool SimNetwork::Core::advance() {
  if (events_.empty()) return false;
  std::pop_heap(events_.begin(), events_.end());
  const Event event = std::move(events_.back());
  events_.pop_back();
  now_ = event.at;
  ++happened_;
  event.happen();
  return true;
}

Wire& SimNetwork::Core::wire(Rank source, Rank destination, ChannelId channel) {
  std::unique_ptr<Wire>& w = wires_[{source, destination, channel}];
  if (!w) {
    w = std::make_unique<Wire>();
    w->source = source;
    w->destination = destination;
  }
  return *w;
}

void SimNetwork::Core::send_mapped(Wire& wire, Message message) {
  const uint64_t number = wire.posted++;
  wire.free_at = std::max(now_, wire.free_at) + wire_time(message.bytes);
  wire.last_arrival = std::max(wire.last_arrival, wire.free_at + latency());
  wire.messages.push_back(std::move(message));
  ++wire.in_flight;
  schedule(wire.last_arrival, [&wire, number] {
    Message& m = wire.number(number);
    m.arrived = m.bytes;
    m.announced = m.complete = true;
    --wire.in_flight;
  });
}

void SimNetwork::Core::send_put(Wire& wire, Message message) {
  const uint64_t number = wire.posted++;
  const size_t bytes = message.bytes;
  message.data = sim::make_room(bytes);
  wire.messages.push_back(std::move(message));
  // Up to three segments, each leaving some time after the one before.
  size_t from = 0;
  for (uint64_t rest = 1 + rng_.below(3); rest > 0; --rest) {
    const size_t to = rest == 1 ? bytes : from + rng_.below(bytes - from + 1);
    wire.free_at = std::max(now_, wire.free_at) + wire_time(to - from) + rng_.below(options.latency_max + 1);
    schedule(wire.free_at, [this, &wire, number, to, last = rest == 1] { leave(wire, number, to, last); });
    from = to;
  }
}

// The wire reads the source up to `to` and carries it away.
void SimNetwork::Core::leave(Wire& wire, uint64_t number, size_t to, bool last) {
  if (wire.cut) return;
  Message& m = wire.number(number);
  sim::gather(m.source, m.read, to, m.data.get());
  m.read = std::max(m.read, to);
  m.left = last;
  if (last) {
    wire.last_retirement = std::max(wire.last_retirement, now_ + rng_.below(options.latency_max + 1));
    schedule(wire.last_retirement, [&wire, number] { wire.retired = std::max(wire.retired, number + 1); });
  }
  wire.last_arrival = std::max(wire.last_arrival, now_ + latency());
  ++wire.in_flight;
  schedule(wire.last_arrival, [this, &wire, number, to, last] {
    Message& arriving = wire.number(number);
    arriving.arrived = to;
    arriving.announced = true;
    arriving.complete = last;
    --wire.in_flight;
    land(wire);
  });
}

void SimNetwork::Core::land(Wire& wire) {
  Message* m = wire.oldest();
  if (!m || !wire.wanted || !wire.matches(*m)) return;
  sim::scatter(m->data.get(), wire.landed, m->arrived, wire.into);
  wire.landed = std::max(wire.landed, m->arrived);
}

void SimNetwork::Core::send_credit(Wire& wire) {
  wire.last_credit = std::max(wire.last_credit, now_ + latency());
  ++wire.in_flight;
  schedule(wire.last_credit, [&wire] {
    ++wire.credits;
    --wire.in_flight;
  });
}

void SimNetwork::Core::cut_all_of(Rank source) {
  for (auto& [key, w] : wires_) {
    if (w->source == source) cut(*w);
  }
}

bool SimNetwork::Core::drained(Rank source) const {
  for (const auto& [key, w] : wires_) {
    if (w->source != source || options.mapped) continue;
    for (const Message& m : w->messages) {
      if (!m.left) return false;
    }
  }
  return true;
}

}  // namespace tutti
