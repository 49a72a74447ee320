// All pairs: every rank talks to every other directly; one or two latencies whatever n is.
//
//        0 ◄──► 1
//        ▲ ╲  ╱ ▲        slot k of rank r is rank r + 1 + k: all start with different receivers, so none is flooded
//        │  ╳   │
//        ▼ ╱  ╲ ▼
//        3 ◄──► 2
//
// Folds take their operands in the order of ranks, so one-shot and two-shot give the same bits.
// Chunk of copy c in block b: b * copies + c.
#include "algorithms/rows.h"
#include "plan/builder.h"

namespace tutti {
namespace {

bool applies(const Shape& shape) { return fits(shape, 1) && shape.nranks <= UINT16_MAX; }

// One lane of one copy, with all other ranks as its peers: slot k is rank self + 1 + k.
class Pairs {
 public:
  Pairs(PlanBuilder& plan, const Shape& shape, Rank self, uint32_t copy)
      : lane_(plan.lane()), n_(shape.nranks), copies_(shape.lanes), copy_(copy), self_(self) {
    const ChannelId channel{static_cast<uint16_t>(copy)};
    // With a root, the others know only the root: their slot 0.
    if (has_root(shape.collective) && self != shape.root)
      lane_.new_peer(shape.root, channel);
    else
      for (uint32_t k = 1; k < n_; ++k) lane_.new_peer(rank_after(self, k, n_), channel);
  }

  void add(const MoveBuilder& m) { lane_.add(m); }
  // The chunk in the block of rank self + distance.
  int64_t block(int64_t distance) const { return (self_ + distance) * copies_ + copy_; }
  // One message to each, of the receiver's block of `in`.
  MoveBuilder send_blocks() const {
    return move().load(Buffer::in, block(1), copies_).send(PeerSlot{0}).repeat(n_ - 1, 1);
  }
  // One message from each, into the sender's block of `out`.
  MoveBuilder recv_blocks() const {
    return move().recv(PeerSlot{0}).store(Buffer::out, block(1), copies_).repeat(n_ - 1, 1);
  }
  // Folds a message of each and the own input, in the order of ranks: slots go round from the rank after self, so they
  // are read from rank 0's (or, at rank 0, rank 1's) slot on and wrap just where the own operand stands.
  MoveBuilder fold_all(int64_t own_chunk) const {
    const PeerSlot rank_0{static_cast<uint16_t>(self_ == 0 ? 0 : n_ - 1 - self_)};
    return move().recv(rank_0, n_ - 1).load(Buffer::in, own_chunk).local_pos(static_cast<uint32_t>(self_)).complete();
  }

 private:
  LaneBuilder lane_;
  uint32_t n_;
  int64_t copies_, copy_, self_;
};

// Lets `write(pairs, copy)` fill the lane of each copy.
template <class Write>
Plan each_copy(const Shape& shape, Rank self, uint32_t chunks_per_copy, Write write) {
  if (shape.nranks == 1) return alone_plan(shape);
  PlanBuilder plan(chunks_per_copy * shape.lanes);
  for (uint32_t copy = 0; copy < shape.lanes; ++copy) {
    Pairs pairs(plan, shape, self, copy);
    write(pairs, copy);
  }
  return std::move(plan).build();
}

// Direct reduce-scatter, then direct all-gather.
Plan all_reduce_two_shot(const Shape& shape, Rank self) {
  return each_copy(shape, self, shape.nranks, [&](Pairs& p, uint32_t) {
    p.add(p.send_blocks());
    p.add(p.fold_all(p.block(0)).store(Buffer::out, p.block(0)).send(PeerSlot{0}, shape.nranks - 1));
    p.add(p.recv_blocks());
  });
}

// Everyone sends everything to everyone: n times the bytes, half the latencies.
Plan all_reduce_one_shot(const Shape& shape, Rank self) {
  return each_copy(shape, self, 1, [&](Pairs& p, uint32_t copy) {
    p.add(move().load(Buffer::in, copy).send(PeerSlot{0}, shape.nranks - 1));
    p.add(p.fold_all(copy).store(Buffer::out, copy));
  });
}

Plan reduce_scatter(const Shape& shape, Rank self) {
  return each_copy(shape, self, shape.nranks, [&](Pairs& p, uint32_t copy) {
    p.add(p.send_blocks());
    p.add(p.fold_all(p.block(0)).store(Buffer::out, copy));
  });
}

Plan all_gather(const Shape& shape, Rank self) {
  return each_copy(shape, self, shape.nranks, [&](Pairs& p, uint32_t copy) {
    p.add(move().load(Buffer::in, copy).store(Buffer::out, p.block(0)).send(PeerSlot{0}, shape.nranks - 1));
    p.add(p.recv_blocks());
  });
}

Plan all_to_all(const Shape& shape, Rank self) {
  return each_copy(shape, self, shape.nranks, [&](Pairs& p, uint32_t) {
    p.add(p.send_blocks());
    p.add(move().load(Buffer::in, p.block(0)).store(Buffer::out, p.block(0)));
    p.add(p.recv_blocks());
  });
}

Plan gather(const Shape& shape, Rank self) {
  return each_copy(shape, self, shape.nranks, [&](Pairs& p, uint32_t copy) {
    if (self != shape.root) {
      p.add(move().load(Buffer::in, copy).send(PeerSlot{0}));
      return;
    }
    p.add(move().load(Buffer::in, copy).store(Buffer::out, p.block(0)));
    p.add(p.recv_blocks());
  });
}

Plan scatter(const Shape& shape, Rank self) {
  return each_copy(shape, self, shape.nranks, [&](Pairs& p, uint32_t copy) {
    if (self != shape.root) {
      p.add(move().recv(PeerSlot{0}).store(Buffer::out, copy));
      return;
    }
    p.add(p.send_blocks());
    p.add(move().load(Buffer::in, p.block(0)).store(Buffer::out, copy));
  });
}

Plan broadcast(const Shape& shape, Rank self) {
  return each_copy(shape, self, 1, [&](Pairs& p, uint32_t copy) {
    if (self == shape.root)
      p.add(move().load(Buffer::in, copy).store(Buffer::out, copy).send(PeerSlot{0}, shape.nranks - 1));
    else
      p.add(move().recv(PeerSlot{0}).store(Buffer::out, copy));
  });
}

Plan reduce(const Shape& shape, Rank self) {
  return each_copy(shape, self, 1, [&](Pairs& p, uint32_t copy) {
    if (self == shape.root)
      p.add(p.fold_all(copy).store(Buffer::out, copy));
    else
      p.add(move().load(Buffer::in, copy).send(PeerSlot{0}));
  });
}

// ---- costs. In all of them m = n - 1 peers.

// What the moves of Pairs cost; waiting aside.
Work send_blocks_work(double m) { return {.steps = m, .messages = m, .sent = m}; }
Work recv_blocks_work(double m) { return {.steps = m, .messages = m, .received = m, .stored = m}; }
Work send_all_work(double m) { return {.steps = 1, .messages = m, .sent = m}; }
Work fold_all_work(double m) { return {.steps = 1, .messages = m, .received = m, .folded = m, .stored = 1}; }
constexpr Work kCopy = {.steps = 1, .stored = 1};
constexpr Work kWait = {.waits = 1, .awaited = 1};

CostTerms pairs_in_step(const Shape& shape, uint32_t chunks_per_copy, const Work& rank) {
  if (shape.nranks == 1) return alone_terms(shape);
  return terms_in_step(shape, chunks_per_copy * shape.lanes, shape.nranks - 1, rank);
}

// A rank sends to its peers in the order in which it waits for them, backwards: the message it waits for first is the
// last that its sender sends. So there is one wait for all of them.
CostTerms all_reduce_two_shot_terms(const Shape& shape) {
  const double m = shape.nranks - 1.0;
  return pairs_in_step(
      shape, shape.nranks,
      send_blocks_work(m) + kWait + fold_all_work(m) + Work{.messages = m, .sent = m} + kWait + recv_blocks_work(m));
}
CostTerms all_reduce_one_shot_terms(const Shape& shape) {
  const double m = shape.nranks - 1.0;
  return pairs_in_step(shape, 1, send_all_work(m) + kWait + fold_all_work(m));
}
CostTerms reduce_scatter_terms(const Shape& shape) {
  const double m = shape.nranks - 1.0;
  return pairs_in_step(shape, shape.nranks, send_blocks_work(m) + kWait + fold_all_work(m));
}
CostTerms all_gather_terms(const Shape& shape) {
  const double m = shape.nranks - 1.0;
  return pairs_in_step(shape, shape.nranks, kCopy + Work{.messages = m, .sent = m} + kWait + recv_blocks_work(m));
}
// The own block is copied while the messages are under way; here it comes on top.
CostTerms all_to_all_terms(const Shape& shape) {
  const double m = shape.nranks - 1.0;
  return pairs_in_step(shape, shape.nranks, send_blocks_work(m) + kCopy + kWait + recv_blocks_work(m));
}

// Between a root and m others. `way`: of a tile, from the root to the last of the others or from them to the root.
CostTerms rooted_terms(const Shape& shape, uint32_t chunks_per_copy, const Work& root, const Work& other,
                       const Work& way, double waits) {
  if (shape.nranks == 1) return alone_terms(shape);
  return {.chunks = chunks_per_copy * shape.lanes,
          .copies = shape.lanes,
          .peers = shape.nranks - 1,
          .first = way + kWait,
          .stages = {root, other},
          .busiest = root,
          .all = root + (shape.nranks - 1.0) * other + waits * kWait};
}
constexpr Work kSendOne = {.steps = 1, .messages = 1, .sent = 1};
constexpr Work kRecvOne = {.steps = 1, .messages = 1, .received = 1, .stored = 1};

// As in all_to_all, the root's own block is copied while messages are under way, and comes on top here.
CostTerms gather_terms(const Shape& shape) {
  const double m = shape.nranks - 1.0;
  const Work root = kCopy + recv_blocks_work(m);
  return rooted_terms(shape, shape.nranks, root, kSendOne, kSendOne + root, 1);
}
CostTerms scatter_terms(const Shape& shape) {
  const double m = shape.nranks - 1.0;
  return rooted_terms(shape, shape.nranks, send_blocks_work(m) + kCopy, kRecvOne, send_blocks_work(m) + kRecvOne, m);
}
CostTerms broadcast_terms(const Shape& shape) {
  const double m = shape.nranks - 1.0;
  const Work root = kCopy + Work{.messages = m, .sent = m};
  return rooted_terms(shape, 1, root, kRecvOne, root + kRecvOne, m);
}
CostTerms reduce_terms(const Shape& shape) {
  const double m = shape.nranks - 1.0;
  return rooted_terms(shape, 1, fold_all_work(m), kSendOne, kSendOne + fold_all_work(m), 1);
}

constexpr Algorithm kRows[] = {
    {"all_pairs", Collective::all_reduce, applies, all_reduce_two_shot, all_reduce_two_shot_terms},
    {"all_pairs_one_shot", Collective::all_reduce, applies, all_reduce_one_shot, all_reduce_one_shot_terms},
    {"all_pairs", Collective::reduce_scatter, applies, reduce_scatter, reduce_scatter_terms},
    {"all_pairs", Collective::all_gather, applies, all_gather, all_gather_terms},
    {"all_pairs", Collective::all_to_all, applies, all_to_all, all_to_all_terms},
    {"all_pairs", Collective::gather, applies, gather, gather_terms},
    {"all_pairs", Collective::scatter, applies, scatter, scatter_terms},
    {"all_pairs", Collective::broadcast, applies, broadcast, broadcast_terms},
    {"all_pairs", Collective::reduce, applies, reduce, reduce_terms},
};

}  // namespace

std::span<const Algorithm> all_pairs_rows() { return kRows; }

}  // namespace tutti
