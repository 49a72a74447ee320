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

// ---- costs. Both trees look alike: m = n - 1 places below the root, its one child at the top.

constexpr Work kUpLeaf = {.steps = 1, .messages = 1, .sent = 1};
constexpr Work kDownLeaf = {.steps = 1, .messages = 1, .received = 1, .stored = 1};
constexpr Work kWait = {.waits = 1, .awaited = 1};
Work up_node(double children) {
  return {.steps = 1, .messages = children + 1, .sent = 1, .received = children, .folded = children};
}
Work down_node(double sends) { return {.steps = 1, .messages = 1 + sends, .sent = sends, .received = 1, .stored = 1}; }
constexpr Work kRootFold = {.steps = 1, .messages = 1, .received = 1, .folded = 1, .stored = 1};
constexpr Work kRootLoad = {.steps = 1, .stored = 1};
constexpr Work kRootSend = {.messages = 1, .sent = 1};

double levels_below_top(uint32_t m) { return std::bit_width(m) - 1; }
double children_of_top(uint32_t m) { return m == 1 ? 0 : m == std::bit_floor(m) ? 1 : 2; }

// From the deepest leaf to the top. All subtrees to the left are full, so the way through them meets two children in
// each node but the top, which may have one.
Work way_up(uint32_t m) {
  if (m == 1) return kUpLeaf;
  return kUpLeaf + up_node(children_of_top(m)) + (levels_below_top(m) - 1) * up_node(2) + levels_below_top(m) * kWait;
}

// From the top to the leaf that is reached last. A node sends to its left child first; so the way goes right as long as
// that is as deep as left, then left into a full subtree, and right to its end.
Work way_down(uint32_t m) {
  Work way;
  while (m > 1) {
    const uint32_t place = std::bit_floor(m);
    const bool right = m - place > 0 && std::bit_floor(m - place) == place / 2;
    way = way + down_node(right ? 2 : 1) + kWait;
    m = right ? m - place : place - 1;
  }
  return way + kDownLeaf;
}

// `root`: what it does for one tree. A rank is inner node in one tree and leaf in the other.
CostTerms tree_terms(const Shape& shape, const Work& way, const Work& root, bool up, bool down) {
  const uint32_t m = shape.nranks - 1;
  CostTerms terms{.chunks = kTrees * shape.lanes,
                  .copies = shape.lanes,
                  .lanes = up && down ? 2 * kTrees : kTrees,
                  .peers = shape.nranks > 3 ? 4u : 2u};
  terms.first = way;
  const double most_children = m == 1 ? 0 : m == 2 ? 1 : 2;
  terms.stages[0] = root;
  if (up) terms.stages[1] = most_children > 0 ? up_node(most_children) : kUpLeaf;
  if (down) terms.stages[2] = most_children > 0 ? down_node(most_children) : kDownLeaf;
  // Over one tree, m messages go up and m come down; all but the leaves wait for what comes up.
  const double leaves = (m + 1) / 2;
  Work all = root;
  if (up)
    all = all + Work{.steps = 1.0 * m,
                     .waits = m - leaves + 1,
                     .awaited = m - leaves + 1,
                     .messages = 2.0 * m - 1,
                     .sent = 1.0 * m,
                     .received = m - 1.0,
                     .folded = m - 1.0};
  if (down)
    all = all + Work{.steps = 1.0 * m,
                     .waits = 1.0 * m,
                     .awaited = 1.0 * m,
                     .messages = 2.0 * m - 1,
                     .sent = m - 1.0,
                     .received = 1.0 * m,
                     .stored = 1.0 * m};
  terms.all = double{kTrees} * all;
  const Work leaf = (up ? kUpLeaf : Work{}) + (down ? kDownLeaf : Work{});
  const Work inner =
      most_children == 0 ? leaf : (up ? up_node(most_children) : Work{}) + (down ? down_node(most_children) : Work{});
  terms.busiest = m == 1 && !(up && down) ? double{kTrees} * root : leaf + inner;
  return terms;
}

CostTerms all_reduce_terms(const Shape& shape) {
  if (shape.nranks == 1) return alone_terms(shape);
  const uint32_t m = shape.nranks - 1;
  return tree_terms(shape, way_up(m) + kWait + kRootFold + kRootSend + kWait + way_down(m), kRootFold + kRootSend, true,
                    true);
}
CostTerms broadcast_terms(const Shape& shape) {
  if (shape.nranks == 1) return alone_terms(shape);
  return tree_terms(shape, kRootLoad + kRootSend + kWait + way_down(shape.nranks - 1), kRootLoad + kRootSend, false,
                    true);
}
CostTerms reduce_terms(const Shape& shape) {
  if (shape.nranks == 1) return alone_terms(shape);
  return tree_terms(shape, way_up(shape.nranks - 1) + kWait + kRootFold, kRootFold, true, false);
}

constexpr Algorithm kRows[] = {
    {"tree", Collective::all_reduce, applies, all_reduce, all_reduce_terms},
    {"tree", Collective::broadcast, applies, broadcast, broadcast_terms},
    {"tree", Collective::reduce, applies, reduce, reduce_terms},
};

}  // namespace

std::span<const Algorithm> tree_rows() { return kRows; }

}  // namespace tutti
