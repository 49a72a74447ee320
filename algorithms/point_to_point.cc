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

constexpr Algorithm kRows[] = {
    {"direct", Collective::send, applies, send},
    {"direct", Collective::recv, applies, recv},
};

}  // namespace

std::span<const Algorithm> point_to_point_rows() { return kRows; }

}  // namespace tutti
