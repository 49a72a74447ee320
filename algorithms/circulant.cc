#include "algorithms/circulant.h"

#include <bit>
#include <vector>

#include "algorithms/rows.h"

namespace tutti {
namespace {

// n, ceil(n / 2), ..., 1.
std::vector<uint32_t> reaches(uint32_t n) {
  std::vector<uint32_t> reach{n};
  while (reach.back() > 1) reach.push_back((reach.back() + 1) / 2);
  return reach;
}

}  // namespace

void circulant_reduce_scatter(LaneBuilder lane, uint32_t n, Rank self, ChannelId channel, Buffer partial, Buffer result,
                              uint32_t result_chunk) {
  const std::vector<uint32_t> reach = reaches(n);
  for (size_t round = 0; round + 1 < reach.size(); ++round) {
    const uint32_t distance = reach[round + 1], blocks = reach[round] - distance;
    const bool first = round == 0, last = distance == 1;
    const Buffer state = first ? Buffer::in : partial;
    const PeerSlot to = lane.peer(rank_after(self, distance, n), channel);
    const PeerSlot from = lane.peer(rank_after(self, -static_cast<int64_t>(distance), n), channel);
    lane.add(move().load(state, self + distance).span(blocks).send(to));
    MoveBuilder fold = move().recv(from).load(state, self).span(blocks).complete(last);
    if (last)
      fold.store(result, result_chunk);
    else
      fold.store(partial, self);
    lane.add(fold);
    // An odd reach leaves its middle block without a partner. After the first round it must join the partial sums.
    if (first && blocks < distance) lane.add(move().load(Buffer::in, self + blocks).store(partial, self + blocks));
  }
}

void circulant_all_gather(LaneBuilder lane, uint32_t n, Rank self, ChannelId channel) {
  const std::vector<uint32_t> reach = reaches(n);
  for (size_t round = reach.size() - 1; round > 0; --round) {
    const uint32_t distance = reach[round], blocks = reach[round - 1] - distance;
    const PeerSlot to = lane.peer(rank_after(self, -static_cast<int64_t>(distance), n), channel);
    const PeerSlot from = lane.peer(rank_after(self, distance, n), channel);
    lane.add(move().load(Buffer::out, self).span(blocks).send(to));
    lane.add(move().recv(from).store(Buffer::out, self + distance).span(blocks));
  }
}

Plan circulant_all_gather(const Shape& shape, Rank self) {
  const uint32_t n = shape.nranks;
  if (n == 1) return alone_plan(shape);
  PlanBuilder plan(n);
  LaneBuilder lane = plan.lane();
  lane.add(move().load(Buffer::in, 0).store(Buffer::out, self));
  circulant_all_gather(lane, n, self, ChannelId{0});
  return std::move(plan).build();
}

namespace {

double rounds_of(uint32_t n) { return std::bit_width(n - 1); }

}  // namespace

Work circulant_reduce_scatter_work(uint32_t n) {
  const double rounds = rounds_of(n), blocks = n - 1.0, without_partner = n > 2 ? n % 2 : 0;
  return {.steps = 2 * rounds + without_partner,
          .waits = rounds,
          .awaited = blocks,
          .messages = 2 * rounds,
          .sent = blocks,
          .received = blocks,
          .folded = blocks,
          .stored = blocks + without_partner};
}

Work circulant_all_gather_work(uint32_t n) {
  const double rounds = rounds_of(n), blocks = n - 1.0;
  return {.steps = 2 * rounds,
          .waits = rounds,
          .awaited = blocks,
          .messages = 2 * rounds,
          .sent = blocks,
          .received = blocks,
          .stored = blocks};
}

CostTerms circulant_terms(uint32_t n, const Work& rank) {
  // A round has a peer of its own, but for the last of all_reduce's first half, whose distance is 1 both ways.
  CostTerms terms = terms_in_step({.nranks = Rank{n}}, n, static_cast<uint32_t>(rank.waits), rank);
  terms.span = n / 2;
  return terms;
}

CostTerms circulant_all_gather_terms(const Shape& shape) {
  if (shape.nranks == 1) return alone_terms(shape);
  return circulant_terms(shape.nranks, Work{.steps = 1, .stored = 1} + circulant_all_gather_work(shape.nranks));
}

}  // namespace tutti
