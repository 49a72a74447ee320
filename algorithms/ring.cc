// Ring: every rank talks to its two neighbours only, and every link carries the same load.
//
//      0 ──► 1 ──► 2 ──► 3
//      ▲                 │          all_reduce: n - 1 steps of reduce-scatter, then n - 1 of all-gather
//      └─────────────────┘
//
// all_reduce sends 2 (n - 1) / n of the vector over each link, which is the least possible (Patarasuk and Yuan 2009,
// "Bandwidth optimal all-reduce algorithms for clusters of workstations"); its price is 2 (n - 1) latencies. Broadcast
// and reduce cut the ring at the root into a chain and rely on the tiles for their pipeline.
//
// Chunk of copy c in block b: b * copies + c. Blocks travel towards higher ranks, so a rank meets them in falling
// order.
#include "algorithms/rows.h"
#include "plan/builder.h"

namespace tutti {
namespace {

bool applies(const Shape& shape) { return fits(shape, 1); }

// The neighbours of one lane.
struct Neighbours {
  PeerSlot prev, next;
  Neighbours(LaneBuilder& lane, Rank self, uint32_t n, uint32_t copy)
      : prev(lane.peer(rank_after(self, -1, n), ChannelId{static_cast<uint16_t>(copy)})),
        next(lane.peer(rank_after(self, 1, n), ChannelId{static_cast<uint16_t>(copy)})) {}
};

// Block numbers, relative to the own one, as chunks of one copy.
struct Blocks {
  int64_t self, copies, copy;
  int64_t at(int64_t distance) const { return (self + distance) * copies + copy; }
};

Plan all_reduce(const Shape& shape, Rank self) {
  const uint32_t n = shape.nranks, copies = shape.lanes;
  if (n == 1) return alone_plan(shape);
  PlanBuilder plan(n * copies);
  for (uint32_t copy = 0; copy < copies; ++copy) {
    LaneBuilder lane = plan.lane();
    const Neighbours to(lane, self, n, copy);
    const Blocks block{self, copies, copy};
    const int64_t down = -static_cast<int64_t>(copies);
    lane.add(move().load(Buffer::in, block.at(0)).send(to.next));
    lane.add(move().recv(to.prev).load(Buffer::in, block.at(-1), down).local_pos(1).send(to.next).repeat(n - 2));
    lane.add(move()
                 .recv(to.prev)
                 .load(Buffer::in, block.at(1))
                 .local_pos(1)
                 .complete()
                 .store(Buffer::out, block.at(1))
                 .send(to.next));
    lane.add(move().recv(to.prev).store(Buffer::out, block.at(0), down).send(to.next).repeat(n - 2));
    lane.add(move().recv(to.prev).store(Buffer::out, block.at(2)));
  }
  return std::move(plan).build();
}

Plan reduce_scatter(const Shape& shape, Rank self) {
  const uint32_t n = shape.nranks, copies = shape.lanes;
  if (n == 1) return alone_plan(shape);
  PlanBuilder plan(n * copies);
  for (uint32_t copy = 0; copy < copies; ++copy) {
    LaneBuilder lane = plan.lane();
    const Neighbours to(lane, self, n, copy);
    const Blocks block{self, copies, copy};
    const int64_t down = -static_cast<int64_t>(copies);
    lane.add(move().load(Buffer::in, block.at(-1)).send(to.next));
    lane.add(move().recv(to.prev).load(Buffer::in, block.at(-2), down).local_pos(1).send(to.next).repeat(n - 2));
    lane.add(move().recv(to.prev).load(Buffer::in, block.at(0)).local_pos(1).complete().store(Buffer::out, copy));
  }
  return std::move(plan).build();
}

Plan all_gather(const Shape& shape, Rank self) {
  const uint32_t n = shape.nranks, copies = shape.lanes;
  if (n == 1) return alone_plan(shape);
  PlanBuilder plan(n * copies);
  for (uint32_t copy = 0; copy < copies; ++copy) {
    LaneBuilder lane = plan.lane();
    const Neighbours to(lane, self, n, copy);
    const Blocks block{self, copies, copy};
    const int64_t down = -static_cast<int64_t>(copies);
    lane.add(move().load(Buffer::in, copy).store(Buffer::out, block.at(0)).send(to.next));
    lane.add(move().recv(to.prev).store(Buffer::out, block.at(-1), down).send(to.next).repeat(n - 2));
    lane.add(move().recv(to.prev).store(Buffer::out, block.at(1)));
  }
  return std::move(plan).build();
}

// root ──► root + 1 ──► ... ──► root - 1
Plan broadcast(const Shape& shape, Rank self) {
  const uint32_t n = shape.nranks, copies = shape.lanes;
  if (n == 1) return alone_plan(shape);
  PlanBuilder plan(copies);
  const bool first = self == shape.root, last = rank_after(self, 1, n) == shape.root;
  for (uint32_t copy = 0; copy < copies; ++copy) {
    LaneBuilder lane = plan.lane();
    const Neighbours to(lane, self, n, copy);
    MoveBuilder m = move().store(Buffer::out, copy);
    if (first) m.load(Buffer::in, copy);
    if (!first) m.recv(to.prev);
    if (!last) m.send(to.next);
    lane.add(m);
  }
  return std::move(plan).build();
}

// root + 1 ──► root + 2 ──► ... ──► root
Plan reduce(const Shape& shape, Rank self) {
  const uint32_t n = shape.nranks, copies = shape.lanes;
  if (n == 1) return alone_plan(shape);
  PlanBuilder plan(copies);
  const bool last = self == shape.root, first = rank_after(self, -1, n) == shape.root;
  for (uint32_t copy = 0; copy < copies; ++copy) {
    LaneBuilder lane = plan.lane();
    const Neighbours to(lane, self, n, copy);
    MoveBuilder m = move().load(Buffer::in, copy);
    if (!first) m.recv(to.prev).local_pos(1);
    if (last) m.store(Buffer::out, copy).complete();
    if (!last) m.send(to.next);
    lane.add(m);
  }
  return std::move(plan).build();
}

// ---- costs

// Around the ring, all ranks in step: `hops` hand-overs, of which the first `folds` fold; each rank stores `stores`.
CostTerms ring_terms(const Shape& shape, double hops, double folds, double stores) {
  if (shape.nranks == 1) return alone_terms(shape);
  return terms_in_step(shape, shape.nranks * shape.lanes, 1,
                       {.steps = hops + 1,
                        .waits = hops,
                        .awaited = hops,
                        .messages = 2 * hops,
                        .sent = hops,
                        .received = hops,
                        .folded = folds,
                        .stored = stores});
}

CostTerms all_reduce_terms(const Shape& shape) {
  const double n = shape.nranks;
  return ring_terms(shape, 2 * (n - 1), n - 1, n);
}
CostTerms reduce_scatter_terms(const Shape& shape) {
  return ring_terms(shape, shape.nranks - 1.0, shape.nranks - 1.0, 1);
}
CostTerms all_gather_terms(const Shape& shape) { return ring_terms(shape, shape.nranks - 1.0, 0, shape.nranks); }

// Along the chain: what the first rank does, each of those between, and the last.
CostTerms chain_terms(const Shape& shape, const Work& first, const Work& between, const Work& last) {
  if (shape.nranks == 1) return alone_terms(shape);
  const double n_between = shape.nranks - 2;
  CostTerms terms{.chunks = shape.lanes, .copies = shape.lanes, .peers = 1};
  terms.first = terms.all = first + n_between * between + last;
  // From the second tile on nobody waits: each has tiles to work on.
  const auto without_waits = [](Work w) { return w.waits = w.awaited = 0, w; };
  terms.stages = {without_waits(first), without_waits(last)};
  if (shape.nranks > 2) terms.stages[2] = without_waits(between);
  terms.busiest = shape.nranks > 2 ? between : last.folded > 0 ? last : first;
  return terms;
}

CostTerms broadcast_terms(const Shape& shape) {
  return chain_terms(shape, {.steps = 1, .messages = 1, .sent = 1, .stored = 1},
                     {.steps = 1, .waits = 1, .awaited = 1, .messages = 2, .sent = 1, .received = 1, .stored = 1},
                     {.steps = 1, .waits = 1, .awaited = 1, .messages = 1, .received = 1, .stored = 1});
}
CostTerms reduce_terms(const Shape& shape) {
  return chain_terms(shape, {.steps = 1, .messages = 1, .sent = 1},
                     {.steps = 1, .waits = 1, .awaited = 1, .messages = 2, .sent = 1, .received = 1, .folded = 1},
                     {.steps = 1, .waits = 1, .awaited = 1, .messages = 1, .received = 1, .folded = 1, .stored = 1});
}

constexpr Algorithm kRows[] = {
    {"ring", Collective::all_reduce, applies, all_reduce, all_reduce_terms, false, true},
    {"ring", Collective::reduce_scatter, applies, reduce_scatter, reduce_scatter_terms, false, true},
    {"ring", Collective::all_gather, applies, all_gather, all_gather_terms, false, true},
    {"ring", Collective::broadcast, applies, broadcast, broadcast_terms, false, true},
    {"ring", Collective::reduce, applies, reduce, reduce_terms, false, true},
};

}  // namespace

std::span<const Algorithm> ring_rows() { return kRows; }

}  // namespace tutti
