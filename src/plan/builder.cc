#include "plan/builder.h"

#include <algorithm>

namespace tutti {
namespace {

// The same walk with its first chunk in [0, modulus).
ChunkWalk in_range(ChunkWalk walk, uint32_t modulus) {
  if (modulus == 0) return walk;
  const int64_t m = modulus;
  const int64_t first = walk.first % m;
  walk.first = static_cast<int32_t>(first < 0 ? first + m : first);
  return walk;
}

}  // namespace

LaneBuilder PlanBuilder::lane() {
  plan_.lanes.emplace_back();
  return {plan_, plan_.lanes.size() - 1};
}

PeerSlot LaneBuilder::peer(Rank rank, ChannelId channel) {
  const std::vector<Peer>& peers = plan_->lanes[lane_].peers;
  const auto known = std::ranges::find(peers, Peer{rank, channel});
  if (known != peers.end()) return PeerSlot{static_cast<uint16_t>(known - peers.begin())};
  return new_peer(rank, channel);
}

PeerSlot LaneBuilder::new_peer(Rank rank, ChannelId channel) {
  std::vector<Peer>& peers = plan_->lanes[lane_].peers;
  peers.push_back({rank, channel});
  return PeerSlot{static_cast<uint16_t>(peers.size() - 1)};
}

LaneBuilder& LaneBuilder::add(const MoveBuilder& builder) {
  Move m = builder.get();
  if (m.repeat == 0) return *this;
  const auto modulus = [&](Buffer b) { return b == Buffer::scratch ? plan_->scratch_chunks : plan_->chunks; };
  m.load = in_range(m.load, modulus(m.load_from));
  m.store = in_range(m.store, modulus(m.store_to));
  plan_->lanes[lane_].moves.push_back(m);
  return *this;
}

Plan alone_plan(const Shape& shape) {
  // A barrier is an all_reduce of nothing.
  const bool reduces = is_reduction(shape.collective) || shape.collective == Collective::barrier;
  PlanBuilder plan(shape.lanes);
  for (uint32_t copy = 0; copy < shape.lanes; ++copy)
    plan.lane().add(move().load(Buffer::in, copy).store(Buffer::out, copy).complete(reduces));
  return std::move(plan).build();
}

}  // namespace tutti
