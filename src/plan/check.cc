#include "plan/check.h"

#include <algorithm>

#include "plan/builder.h"
#include "plan/dump.h"

namespace tutti {
namespace {

// More iterations and chunks than any algorithm needs; bounds keep a run over a broken plan short and small.
constexpr uint32_t kRepeatMax = 1u << 20;
constexpr uint32_t kChunksMax = 1u << 24;

// A plan is data that may have been parsed or mutated, so errors are the plan's fault and not the caller's.
template <class... Args>
Status wrong(Rank rank, LaneId lane, uint32_t move, fmt::format_string<Args...> format, Args&&... args) {
  return fail(tuttiInvalidUsage, "{}: {}", describe(rank, lane, Cursor{move, 0}),
              fmt::format(format, std::forward<Args>(args)...));
}

Status check_peers(const Lane& lane, const Contract& contract, Rank self, LaneId lane_id) {
  const uint32_t n = contract.shape().nranks;
  if (lane.peers.size() > UINT16_MAX)
    return wrong(self, lane_id, 0, "a lane has {} peers; slots are 16 bits wide", lane.peers.size());
  std::vector<uint64_t> keys;
  keys.reserve(lane.peers.size());
  for (const Peer& peer : lane.peers) {
    if (peer.rank >= n)
      return wrong(self, lane_id, 0, "peer rank {} is not below {}", static_cast<uint32_t>(peer.rank), n);
    if (peer.channel >= kPlanChannels)
      return wrong(self, lane_id, 0, "channel {} is not below {}", static_cast<uint16_t>(peer.channel), kPlanChannels);
    keys.push_back(static_cast<uint64_t>(peer.rank) * kPlanChannels + peer.channel);
  }
  std::ranges::sort(keys);
  if (const auto twice = std::ranges::adjacent_find(keys); twice != keys.end())
    return wrong(self, lane_id, 0, "the peer rank {} channel {} has two slots", *twice / kPlanChannels,
                 *twice % kPlanChannels);
  return {};
}

Status check_slots(const Lane& lane, Rank self, LaneId lane_id, uint32_t index) {
  const Move& m = lane.moves[index];
  const size_t npeers = lane.peers.size();
  if (m.recv_count > npeers || m.send_count > npeers)
    return wrong(self, lane_id, index, "it receives from {} and sends to {} peers; the lane has {}", m.recv_count,
                 m.send_count, npeers);
  if ((m.recv_count > 0 && m.recv_first >= npeers) || (m.send_count > 0 && m.send_first >= npeers))
    return wrong(self, lane_id, index, "slot {} is not below the lane's {} peers",
                 std::max(m.recv_count > 0 ? m.recv_first : 0, m.send_count > 0 ? m.send_first : 0), npeers);
  return {};
}

Status check_walk(const Plan& plan, Rank self, LaneId lane_id, uint32_t index, Buffer buffer, const ChunkWalk& walk) {
  const uint32_t modulus = buffer == Buffer::scratch ? plan.scratch_chunks : plan.chunks;
  if (modulus == 0) return wrong(self, lane_id, index, "it uses scratch; the plan has none");
  if (walk.first < 0 || static_cast<uint32_t>(walk.first) >= modulus)
    return wrong(self, lane_id, index, "first chunk {} of {} is not below {}", walk.first, name_of(buffer), modulus);
  if (plan.lanes[lane_id].moves[index].span > modulus)
    return wrong(self, lane_id, index, "a span of {} meets itself in {} chunks", plan.lanes[lane_id].moves[index].span,
                 modulus);
  return {};
}

Status check_move(const Plan& plan, const Contract& contract, Rank self, LaneId lane_id, uint32_t index) {
  const Lane& lane = plan.lanes[lane_id];
  const Move& m = lane.moves[index];
  TUTTI_TRY(check_slots(lane, self, lane_id, index));
  if (m.load_from > Buffer::scratch || m.store_to > Buffer::scratch)
    return wrong(self, lane_id, index, "there is no such buffer");
  const uint32_t operands = m.recv_count + (m.load_from != Buffer::none ? 1u : 0u);
  if (operands == 0) return wrong(self, lane_id, index, "it has no operand");
  if (m.store_to == Buffer::none && m.send_count == 0) return wrong(self, lane_id, index, "its result goes nowhere");
  if (m.store_to == Buffer::in) return wrong(self, lane_id, index, "it stores to in, which is the caller's");
  if (m.repeat == 0 || m.repeat > kRepeatMax || m.span == 0)
    return wrong(self, lane_id, index, "repeat {} must be 1 .. {}, span {} 1 at least", m.repeat, kRepeatMax, m.span);
  if (m.complete > 1) return wrong(self, lane_id, index, "complete is {}; it may be 0 or 1", m.complete);
  if (m.local_pos > m.recv_count) return wrong(self, lane_id, index, "operand number {} of {}", m.local_pos, operands);
  if (!contract.reduces() && (operands > 1 || m.complete))
    return wrong(self, lane_id, index, "it folds {} operands in a collective that does not reduce", operands);
  if (m.load_from != Buffer::none) TUTTI_TRY(check_walk(plan, self, lane_id, index, m.load_from, m.load));
  if (m.store_to != Buffer::none) TUTTI_TRY(check_walk(plan, self, lane_id, index, m.store_to, m.store));
  if (m.load_from == Buffer::none && m.store_to == Buffer::none)
    TUTTI_TRY(check_walk(plan, self, lane_id, index, Buffer::none, m.load));
  return {};
}

Status check_access(const Plan& plan, const Contract& contract, Rank self, Buffer buffer, ChunkId first,
                    uint32_t span) {
  const bool is_in = buffer == Buffer::in;
  if (is_in ? !contract.has_in(self) : !contract.has_out(self))
    return fail(tuttiInvalidUsage, "it touches {}, which only the root has", name_of(buffer));
  const uint32_t count = is_in ? contract.in_chunks() : contract.out_chunks();
  for (uint32_t k = 0; k < span; ++k)
    if (const uint32_t chunk = chunk_of_span(plan, buffer, first, k); chunk >= count)
      return fail(tuttiInvalidUsage, "chunk {} of {} is not below {}", chunk, name_of(buffer), count);
  return {};
}

}  // namespace

std::string describe(Rank rank, LaneId lane, const Cursor& cursor) {
  return fmt::format("rank {}, lane {}, move {}, iteration {}", static_cast<uint32_t>(rank),
                     static_cast<uint16_t>(lane), cursor.move, cursor.iteration);
}

Status check_plan(const Plan& plan, const Contract& contract, Rank self) {
  if (plan.chunks > kChunksMax || plan.scratch_chunks > kChunksMax)
    return fail(tuttiInvalidUsage, "rank {}: {} chunks and {} of scratch; {} each are the most",
                static_cast<uint32_t>(self), plan.chunks, plan.scratch_chunks, kChunksMax);
  if (plan.chunks == 0 || plan.chunks != contract.chunks())
    return fail(tuttiInvalidUsage, "rank {}: the plan has {} chunks; rank 0's has {} (at least 1)",
                static_cast<uint32_t>(self), plan.chunks, contract.chunks());
  if (plan.lanes.size() > UINT16_MAX)
    return fail(tuttiInvalidUsage, "rank {}: the plan has {} lanes", static_cast<uint32_t>(self), plan.lanes.size());
  for (uint16_t l = 0; l < plan.lanes.size(); ++l) {
    TUTTI_TRY(check_peers(plan.lanes[l], contract, self, LaneId{l}));
    for (uint32_t m = 0; m < plan.lanes[l].moves.size(); ++m) TUTTI_TRY(check_move(plan, contract, self, LaneId{l}, m));
  }
  return {};
}

Status check_step(const Plan& plan, const Contract& contract, Rank self, LaneId lane, const Cursor& cursor,
                  const Step& step) {
  const auto check = [&](Buffer buffer, ChunkId first) -> Status {
    if (buffer == Buffer::none || buffer == Buffer::scratch) return {};
    Status status = check_access(plan, contract, self, buffer, first, step.span);
    return status.ok() ? status : status.within(describe(self, lane, cursor));
  };
  TUTTI_TRY(check(step.load_from, step.load));
  return check(step.store_to, step.store);
}

}  // namespace tutti
