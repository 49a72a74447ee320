// Hierarchical: within the node, between nodes, within the node. For nodes that are joined by less than what is in
// them.
//
//        node 0          node 1            1. reduce_scatter over the m ranks of each node: rank i has shard i of its
//       0 ─► 1          3 ─► 4                node's sum
//       ▲   ╱           ▲   ╱              2. all_reduce of shard i over the i-th ranks of all N nodes
//        ╲ ▼             ╲ ▼               3. all_gather over the ranks of each node
//         2               5
//                                          All three are rings, so that each link carries the least that is possible.
//       0 ◄─► 3,  1 ◄─► 4,  2 ◄─► 5
//
// A node sends 2 (N - 1) / N vectors to others, the least possible: where one ring goes through all ranks, nodes one
// after another, it is 2 (n - 1) / n. All ranks of a node send at the same time, each to one other, so several network
// cards have something to do.
//
// Node k is ranks k m .. k m + m - 1. Chunk of node k's share of shard i, copy c: (i copies + c) N + k. With one rank a
// node, and with one node, it is the ring.
#include "algorithms/rows.h"
#include "plan/builder.h"

namespace tutti {
namespace {

bool applies(const Shape& shape) {
  return fits(shape, 1) && shape.ranks_per_node >= 1 && shape.nranks % shape.ranks_per_node == 0 &&
         shape.nranks / shape.ranks_per_node <= UINT16_MAX;
}

struct Groups {
  uint32_t m, nodes;     // ranks of a node, and how many of them
  uint32_t node, place;  // this rank's
  Groups(const Shape& shape, Rank self)
      : m(shape.ranks_per_node), nodes(shape.nranks / m), node(self / m), place(self % m) {}
  Rank beside(int64_t distance) const { return Rank{node * m + rank_after(Rank{place}, distance, m)}; }
  Rank across(int64_t distance) const { return Rank{rank_after(Rank{node}, distance, nodes) * m + place}; }
};

// One copy of the pattern, as one lane.
class Writer {
 public:
  Writer(LaneBuilder lane, const Groups& groups, uint32_t copies, uint32_t copy)
      : lane_(lane), g_(groups), copies_(copies), copy_(copy), channel_(static_cast<uint16_t>(copy)) {}

  void reduce_scatter_in_node() {
    const PeerSlot prev = lane_.peer(g_.beside(-1), channel_), next = lane_.peer(g_.beside(1), channel_);
    const int64_t down = -int64_t{g_.nodes} * copies_;
    lane_.add(wide().load(Buffer::in, shard(-1)).send(next));
    lane_.add(wide().recv(prev).load(Buffer::in, shard(-2), down).local_pos(1).send(next).repeat(g_.m - 2));
    lane_.add(
        wide().recv(prev).load(Buffer::in, shard(0)).local_pos(1).complete(g_.nodes == 1).store(Buffer::out, shard(0)));
  }

  void all_reduce_across() {
    const PeerSlot prev = lane_.peer(g_.across(-1), channel_), next = lane_.peer(g_.across(1), channel_);
    const Buffer from = g_.m == 1 ? Buffer::in : Buffer::out;  // out holds the node's sum
    lane_.add(move().load(from, part(0)).send(next));
    down_parts(-1, [&](int64_t chunk) { return move().recv(prev).load(from, chunk, -1).local_pos(1).send(next); });
    lane_.add(move().recv(prev).load(from, part(1)).local_pos(1).complete().store(Buffer::out, part(1)).send(next));
    down_parts(0, [&](int64_t chunk) { return move().recv(prev).store(Buffer::out, chunk, -1).send(next); });
    lane_.add(move().recv(prev).store(Buffer::out, part(2)));
  }

  void all_gather_in_node() {
    const PeerSlot prev = lane_.peer(g_.beside(-1), channel_), next = lane_.peer(g_.beside(1), channel_);
    const int64_t down = -int64_t{g_.nodes} * copies_;
    lane_.add(wide().load(Buffer::out, shard(0)).send(next));
    lane_.add(wide().recv(prev).store(Buffer::out, shard(-1), down).send(next).repeat(g_.m - 2));
    lane_.add(wide().recv(prev).store(Buffer::out, shard(1)));
  }

 private:
  // A move of a whole shard.
  MoveBuilder wide() const { return move().span(g_.nodes); }
  // The first chunk of the shard `distance` places on.
  int64_t shard(int64_t distance) const {
    return (int64_t{rank_after(Rank{g_.place}, distance, g_.m)} * copies_ + copy_) * g_.nodes;
  }
  // Of the own shard, the share of the node `distance` places on.
  int64_t part(int64_t distance) const { return shard(0) + rank_after(Rank{g_.node}, distance, g_.nodes); }

  // Moves over the next nodes - 2 shares, in falling order from the one `distance` places on. They wrap within the
  // shard, which a walk over all chunks does not: two moves, where they do.
  template <class MoveAt>
  void down_parts(int64_t distance, MoveAt move_at) {
    const uint32_t count = g_.nodes - 2;
    const uint32_t first = rank_after(Rank{g_.node}, distance, g_.nodes);
    const uint32_t until_wrap = std::min(count, first + 1);
    lane_.add(move_at(shard(0) + first).repeat(until_wrap));
    lane_.add(move_at(shard(0) + g_.nodes - 1).repeat(count - until_wrap));
  }

  LaneBuilder lane_;
  const Groups& g_;
  const int64_t copies_, copy_;
  const ChannelId channel_;
};

Plan all_reduce(const Shape& shape, Rank self) {
  if (shape.nranks == 1) return alone_plan(shape);
  const Groups groups(shape, self);
  PlanBuilder plan(shape.nranks * shape.lanes);
  for (uint32_t copy = 0; copy < shape.lanes; ++copy) {
    Writer writer(plan.lane(), groups, shape.lanes, copy);
    if (groups.m > 1) writer.reduce_scatter_in_node();
    if (groups.nodes > 1) writer.all_reduce_across();
    if (groups.m > 1) writer.all_gather_in_node();
  }
  return std::move(plan).build();
}

// Steps 1 and 3, whose messages are whole shards of `parts` chunks.
Work within(double m, double parts) {
  return {.steps = 2 * m,
          .waits = 2 * (m - 1),
          .awaited = 2 * (m - 1) * parts,
          .messages = 4 * (m - 1),
          .sent = 2 * (m - 1) * parts,
          .received = 2 * (m - 1) * parts,
          .folded = (m - 1) * parts,
          .stored = m * parts};
}

Work between(double nodes) {
  const double hops = 2 * (nodes - 1);
  return {.steps = hops + 1,
          .waits = hops,
          .awaited = hops,
          .messages = 2 * hops,
          .sent = hops,
          .received = hops,
          .folded = nodes - 1,
          .stored = nodes};
}

CostTerms all_reduce_terms(const Shape& shape) {
  if (shape.nranks == 1) return alone_terms(shape);
  const uint32_t m = shape.ranks_per_node, nodes = shape.nranks / m, chunks = shape.nranks * shape.lanes;
  if (nodes == 1) return terms_in_step(shape, chunks, 1, within(m, 1));
  CostTerms terms = terms_in_step(shape, chunks, m > 1 ? 2 : 1, between(nodes));
  if (m == 1) return terms;
  terms.span = nodes;
  terms.near = within(m, nodes);
  return terms;
}

constexpr Algorithm kRows[] = {
    {"hierarchical", Collective::all_reduce, applies, all_reduce, all_reduce_terms, true},
};

}  // namespace

std::span<const Algorithm> hierarchical_rows() { return kRows; }

}  // namespace tutti
