// Recursive doubling: in round k a rank exchanges all it has with the rank at distance 2^k.
//
//   all_reduce, n = 4        0 ◄─► 1   2 ◄─► 3      round 1: distance 1
//                            0 ◄──────► 2            round 2: distance 2 (and 1 ◄─► 3)
//
// all_reduce exchanges whole vectors: log2 n latencies, log2 n vectors; best for small ones. Ranks beyond the largest
// power of two hand their input to a partner first and get the result from it last. Each fold puts the lower rank's
// operand first, so that both partners compute the same bits. (Thakur, Rabenseifner and Gropp 2005, "Optimization of
// collective communication operations in MPICH", section 4.5.)
//
// The barrier is this all_reduce over nothing. all_gather is the doubling half of circulant.h and serves any n alike.
#include <bit>

#include "algorithms/circulant.h"
#include "algorithms/rows.h"
#include "plan/builder.h"

namespace tutti {
namespace {

bool applies(const Shape& shape) { return fits(shape, 1) && shape.nranks <= UINT16_MAX; }

// The lane of a rank among the first power-of-two ranks. State: in `in` before the first fold, in `out` after it. Each
// fold sends its result on to the partner of the next round.
void exchange(LaneBuilder lane, uint32_t n, Rank self, uint32_t copy) {
  const ChannelId channel{static_cast<uint16_t>(copy)};
  const uint32_t ranks = std::bit_floor(n);
  const bool has_extra = self + ranks < n;
  const PeerSlot extra = has_extra ? lane.peer(Rank{self + ranks}, channel) : PeerSlot{};
  Buffer state = Buffer::in;
  MoveBuilder m = move().load(Buffer::in, copy);
  if (has_extra) {
    m.recv(extra).store(Buffer::out, copy);
    state = Buffer::out;
  }
  for (uint32_t distance = 1; distance < ranks; distance *= 2) {
    const Rank partner{self ^ distance};
    const PeerSlot slot = lane.peer(partner, channel);
    lane.add(m.send(slot));
    m = move().recv(slot).load(state, copy).local_pos(self < partner ? 0 : 1).store(Buffer::out, copy);
    state = Buffer::out;
  }
  m.complete();
  if (has_extra) m.send(extra);
  lane.add(m);
}

Plan all_reduce(const Shape& shape, Rank self) {
  const uint32_t n = shape.nranks;
  if (n == 1) return alone_plan(shape);
  PlanBuilder plan(shape.lanes);
  for (uint32_t copy = 0; copy < shape.lanes; ++copy) {
    LaneBuilder lane = plan.lane();
    if (self < std::bit_floor(n)) {
      exchange(lane, n, self, copy);
      continue;
    }
    const PeerSlot partner = lane.peer(Rank{self - std::bit_floor(n)}, ChannelId{static_cast<uint16_t>(copy)});
    lane.add(move().load(Buffer::in, copy).send(partner));
    lane.add(move().recv(partner).store(Buffer::out, copy));
  }
  return std::move(plan).build();
}

// A round is one step. With ranks left over, who had to wait for one of them comes late to its partners, so it need not
// wait for those that had not: if less than half of the ranks have one, the wait for it is hidden somewhere in the
// rounds. (Which is as if nobody had to wait for it, but all had to fold it: at most a fold too much.)
CostTerms all_reduce_terms(const Shape& shape) {
  const uint32_t n = shape.nranks, ranks = std::bit_floor(n);
  if (n == 1) return alone_terms(shape);
  const double rounds = std::bit_width(ranks) - 1, extras = n - ranks;
  const Work send = {.messages = 1, .sent = 1};
  const Work fold = {.steps = 1, .waits = 1, .awaited = 1, .messages = 1, .received = 1, .folded = 1, .stored = 1};
  const Work plain = Work{.steps = 1} + rounds * (send + fold);
  if (extras == 0) return terms_in_step(shape, shape.lanes, static_cast<uint32_t>(rounds), plain);
  const Work extra = Work{.steps = 2, .waits = 1, .awaited = 1, .messages = 2, .sent = 1, .received = 1, .stored = 1};
  Work partner = (rounds + 1) * (fold + send);
  if (2 * extras <= ranks) partner.waits = partner.awaited = rounds;
  CostTerms terms = terms_in_step(shape, shape.lanes, static_cast<uint32_t>(rounds) + 1, extra + partner);
  terms.busiest = partner;
  terms.all = extras * (extra + partner) + (ranks - extras) * plain;
  return terms;
}

constexpr Algorithm kRows[] = {
    {"recursive_doubling", Collective::all_reduce, applies, all_reduce, all_reduce_terms},
    {"recursive_doubling", Collective::all_gather, applies, circulant_all_gather, circulant_all_gather_terms},
    {"recursive_doubling", Collective::barrier, applies, all_reduce, all_reduce_terms},
};

}  // namespace

std::span<const Algorithm> recursive_doubling_rows() { return kRows; }

}  // namespace tutti
