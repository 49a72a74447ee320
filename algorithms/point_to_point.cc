// Send and recv: one lane, one move, one chunk. Shape::root is the peer's rank; a message to oneself takes the loopback
// link like any other.
#include "algorithms/rows.h"
#include "plan/builder.h"

namespace tutti {
namespace {

bool applies(const Shape& shape) { return fits(shape, 1); }

Plan send(const Shape& shape, Rank) {
  PlanBuilder plan(1);
  LaneBuilder lane = plan.lane();
  const PeerSlot peer = lane.peer(shape.root, ChannelId{0});
  lane.add(move().load(Buffer::in, 0).send(peer));
  return std::move(plan).build();
}

Plan recv(const Shape& shape, Rank) {
  PlanBuilder plan(1);
  LaneBuilder lane = plan.lane();
  const PeerSlot peer = lane.peer(shape.root, ChannelId{0});
  lane.add(move().recv(peer).store(Buffer::out, 0));
  return std::move(plan).build();
}

// Of the pair: a send is over when its message has been received.
CostTerms terms(const Shape&) {
  constexpr Work kSender = {.steps = 1, .messages = 1, .sent = 1};
  constexpr Work kReceiver = {.steps = 1, .messages = 1, .received = 1, .stored = 1};
  const Work both = kSender + kReceiver + Work{.waits = 1, .awaited = 1};
  return {.chunks = 1,
          .copies = 1,
          .peers = 1,
          .first = both,
          .stages = {kSender, kReceiver},
          .busiest = kSender,
          .all = both};
}

constexpr Algorithm kRows[] = {
    {"direct", Collective::send, applies, send, terms},
    {"direct", Collective::recv, applies, recv, terms},
};

}  // namespace

std::span<const Algorithm> point_to_point_rows() { return kRows; }

}  // namespace tutti
