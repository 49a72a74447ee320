// Builder: a small fluent way to write plans.
//
//   PlanBuilder plan(/*chunks=*/n);
//   LaneBuilder lane = plan.lane();
//   const PeerSlot next = lane.peer(rank_after(self, 1, n), ChannelId{0});
//   lane.add(move().recv(prev).load(Buffer::in, self - 1, -1).send(next).repeat(n - 2));
//   return std::move(plan).build();
//
// It only writes fields; whether a plan is right is the verifier's business (verify.h). Not thread-safe.
#pragma once

#include <cstdint>
#include <utility>

#include "plan/plan.h"

namespace tutti {

// Channels that any transport offers between two ranks; channel ids of a plan are below it.
constexpr uint32_t kPlanChannels = 64;

// The rank `distance` places after `self` (before it, when negative) on the circle of nranks.
inline Rank rank_after(Rank self, int64_t distance, uint32_t nranks) {
  const int64_t n = nranks;
  const int64_t r = (static_cast<int64_t>(self) + distance) % n;
  return Rank{static_cast<uint32_t>(r < 0 ? r + n : r)};
}

// A Move under construction. Chunk numbers may be given unreduced or negative; LaneBuilder::add brings them into range.
class MoveBuilder {
 public:
  MoveBuilder& recv(PeerSlot first, uint32_t count = 1) {
    move_.recv_first = first;
    move_.recv_count = static_cast<uint16_t>(count);
    return *this;
  }
  MoveBuilder& send(PeerSlot first, uint32_t count = 1) {
    move_.send_first = first;
    move_.send_count = static_cast<uint16_t>(count);
    return *this;
  }
  MoveBuilder& load(Buffer buffer, int64_t chunk, int64_t step = 0) {
    move_.load_from = buffer;
    move_.load = {static_cast<int32_t>(chunk), static_cast<int32_t>(step)};
    return *this;
  }
  MoveBuilder& store(Buffer buffer, int64_t chunk, int64_t step = 0) {
    move_.store_to = buffer;
    move_.store = {static_cast<int32_t>(chunk), static_cast<int32_t>(step)};
    return *this;
  }
  // The place of the local operand among the messages: 0 before all of them.
  MoveBuilder& local_pos(uint32_t pos) {
    move_.local_pos = static_cast<uint16_t>(pos);
    return *this;
  }
  MoveBuilder& span(uint32_t chunks) {
    move_.span = static_cast<uint16_t>(chunks);
    return *this;
  }
  MoveBuilder& repeat(uint32_t iterations, int32_t peer_step = 0) {
    move_.repeat = iterations;
    move_.peer_step = static_cast<int16_t>(peer_step);
    return *this;
  }
  MoveBuilder& complete(bool yes = true) {
    move_.complete = yes ? 1 : 0;
    return *this;
  }
  const Move& get() const { return move_; }

 private:
  Move move_;
};

inline MoveBuilder move() { return {}; }

class LaneBuilder;

class PlanBuilder {
 public:
  explicit PlanBuilder(uint32_t chunks, uint32_t scratch_chunks = 0) {
    plan_.chunks = chunks;
    plan_.scratch_chunks = scratch_chunks;
  }
  // A new lane. The builder must outlive what it returns, and stay where it is.
  LaneBuilder lane();
  Plan build() && { return std::move(plan_); }

 private:
  friend class LaneBuilder;
  Plan plan_;
};

// Writes one lane. A handle: cheap to copy, valid while its PlanBuilder is not moved.
class LaneBuilder {
 public:
  // The slot of a peer: the one it has, or else the next. O(peers so far).
  PeerSlot peer(Rank rank, ChannelId channel);
  // The next slot, for a peer that is known to have none yet. O(1).
  PeerSlot new_peer(Rank rank, ChannelId channel);
  // Appends the move. A move of no iterations is left out, which spares algorithms their special cases for small n.
  LaneBuilder& add(const MoveBuilder& builder);

 private:
  friend class PlanBuilder;
  LaneBuilder(Plan& plan, size_t lane) : plan_(&plan), lane_(lane) {}
  Plan* plan_;
  size_t lane_;
};

// The plan of a rank that is alone: every collective is then a copy of in to out, in `copies` lanes of one chunk each.
Plan alone_plan(const Shape& shape);

}  // namespace tutti
