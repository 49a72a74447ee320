// Double binary tree: two trees over all ranks but the root, each carrying half of the bytes, such that a rank is inner
// node in at most one of them (Sanders, Speck and Traeff 2009, "Two-tree algorithms for full bandwidth broadcast,
// reduction and scan").
//
//   n = 8, root 0            tree 0              tree 1 (the same, one place on)
//                              0                    0
//                              4                    3
//                            ╱   ╲                ╱   ╲
//                           2     6              1     5
//                          ╱ ╲   ╱ ╲            ╱ ╲   ╱ ╲
//                         1   3 5   7          7   2 4   6
//
// Number the others 1 .. m. In tree 0 node q has its in-order place q: odd places are leaves, even ones inner nodes.
// Tree 1 gives node v the place v mod m + 1, which makes an inner node of every leaf of tree 0 but the last, and a leaf
// of every inner node. So over a pipeline of tiles each rank sends and receives about as much as the root does.
//
// Up and down are lanes of their own at every rank but the root, where one fold ends the way up and begins the way
// down.
#include <bit>
#include <optional>

#include "algorithms/rows.h"
#include "plan/builder.h"

namespace tutti {
namespace {

constexpr uint32_t kTrees = 2;

bool applies(const Shape& shape) { return fits(shape, kTrees); }

// The in-order binary tree of places 1 .. m. Place q of level l (trailing zero bits) has its subtree within
// q - 2^l < p < q + 2^l; where that reaches beyond m, the right child is the first on the way down that exists.
struct Place {
  std::optional<uint32_t> parent, left, right;
};

Place place_in_tree(uint32_t q, uint32_t m) {
  Place place;
  const uint32_t level_bit = q & (~q + 1);
  if (level_bit > 1) place.left = q - level_bit / 2;
  for (uint32_t half = level_bit / 2; half > 0 && !place.right; half /= 2)
    if (q + half <= m) place.right = q + half;
  if (q == std::bit_floor(m)) return place;
  // The parent in the complete tree swaps the lowest set bit for the next higher one; beyond m, so does its parent.
  uint32_t p = q;
  do {
    const uint32_t bit = p & (~p + 1);
    p = (p & ~bit) | (bit * 2);
  } while (p > m);
  place.parent = p;
  return place;
}

// A rank's neighbours in one tree.
struct Node {
  std::optional<Rank> parent;
  std::optional<Rank> left, right;
};

Node node_of(const Shape& shape, Rank self, uint32_t tree) {
  const uint32_t m = shape.nranks - 1;
  // Places 1 .. m and ranks; tree 1 is shifted by one.
  const auto rank_at = [&](uint32_t q) {
    const uint32_t v = tree == 0 ? q : (q == 1 ? m : q - 1);
    return rank_after(shape.root, v, shape.nranks);
  };
  Node node;
  if (self == shape.root) {
    node.left = rank_at(std::bit_floor(m));
    return node;
  }
  const uint32_t v = rank_after(self, -static_cast<int64_t>(shape.root), shape.nranks);
  const Place place = place_in_tree(tree == 0 ? v : v % m + 1, m);
  node.parent = place.parent ? rank_at(*place.parent) : shape.root;
  if (place.left) node.left = rank_at(*place.left);
  if (place.right) node.right = rank_at(*place.right);
  return node;
}

// The peers of one lane: children first, so that they are one range of slots.
struct Family {
  PeerSlot children{0}, parent;
  uint32_t nchildren = 0;
  Family(LaneBuilder& lane, const Node& node, ChannelId channel) {
    for (const std::optional<Rank>& child : {node.left, node.right}) {
      if (!child) continue;
      lane.peer(*child, channel);
      ++nchildren;
    }
    if (node.parent) parent = lane.peer(*node.parent, channel);
  }
};

// Root or not, what comes from the children is folded with the own input.
MoveBuilder fold_children(const Family& family, uint32_t chunk) {
  MoveBuilder m = move().load(Buffer::in, chunk);
  if (family.nchildren > 0) m.recv(family.children, family.nchildren);
  return m;
}

template <class Write>
Plan each_tree(const Shape& shape, Rank self, Write write) {
  if (shape.nranks == 1) return alone_plan(shape);
  PlanBuilder plan(kTrees * shape.lanes);
  for (uint32_t chunk = 0; chunk < kTrees * shape.lanes; ++chunk)
    write(plan, node_of(shape, self, chunk % kTrees), chunk);
  return std::move(plan).build();
}

void add_reduce(PlanBuilder& plan, const Node& node, uint32_t chunk, bool then_broadcast) {
  LaneBuilder lane = plan.lane();
  const Family family(lane, node, ChannelId{static_cast<uint16_t>(chunk)});
  MoveBuilder m = fold_children(family, chunk);
  if (node.parent) {
    m.send(family.parent);
  } else {
    m.complete().store(Buffer::out, chunk);
    if (then_broadcast) m.send(family.children, family.nchildren);
  }
  lane.add(m);
}

void add_broadcast(PlanBuilder& plan, const Node& node, uint32_t chunk) {
  LaneBuilder lane = plan.lane();
  const Family family(lane, node, ChannelId{static_cast<uint16_t>(chunk)});
  MoveBuilder m = move().store(Buffer::out, chunk);
  if (node.parent)
    m.recv(family.parent);
  else
    m.load(Buffer::in, chunk);
  if (family.nchildren > 0) m.send(family.children, family.nchildren);
  lane.add(m);
}

Plan all_reduce(const Shape& shape, Rank self) {
  return each_tree(shape, self, [](PlanBuilder& plan, const Node& node, uint32_t chunk) {
    add_reduce(plan, node, chunk, /*then_broadcast=*/true);
    if (node.parent) add_broadcast(plan, node, chunk);
  });
}

Plan broadcast(const Shape& shape, Rank self) { return each_tree(shape, self, add_broadcast); }

Plan reduce(const Shape& shape, Rank self) {
  return each_tree(shape, self, [](PlanBuilder& plan, const Node& node, uint32_t chunk) {
    add_reduce(plan, node, chunk, /*then_broadcast=*/false);
  });
}

constexpr Algorithm kRows[] = {
    {"tree", Collective::all_reduce, applies, all_reduce},
    {"tree", Collective::broadcast, applies, broadcast},
    {"tree", Collective::reduce, applies, reduce},
};

}  // namespace

std::span<const Algorithm> tree_rows() { return kRows; }

}  // namespace tutti
