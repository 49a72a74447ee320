#include "topo/order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace tutti {
namespace {

constexpr size_t kMostRings = 16;
constexpr uint32_t kMostSteps = 100'000;  // of one search; 1 step takes about 0.2 us
constexpr double kSlack = 1e-6;           // sums of capacities are not exact

using RingList = std::vector<std::vector<uint32_t>>;

// Rings that all carry `gb_s`: depth first, with what is left of each link.
class RingSearch {
 public:
  // Neighbours are at most `farthest` from each other. `paired`: each ring is taken together with its reverse, which
  // needs no search of its own.
  RingSearch(const Fabric& fabric, PathClass farthest, double gb_s, bool paired)
      : fabric_(fabric),
        farthest_(farthest),
        gb_s_(gb_s),
        paired_(paired && fabric.gpus() > 2),
        left_(fabric.link_gb_s()) {
    taken_.resize(fabric.gpus());
  }

  RingList search(size_t enough) {
    enough_ = enough;
    start_ring();
    return std::move(best_);
  }

 private:
  bool done() const { return best_.size() >= enough_ || steps_ >= kMostSteps; }

  bool fits(uint32_t from, uint32_t to) const {
    if (fabric_.between_gpus(from, to).path_class > farthest_) return false;
    const double need = gb_s_ * fabric_.load(from, to);
    return std::ranges::all_of(fabric_.route(from, to), [&](uint32_t link) { return left_[link] + kSlack >= need; });
  }
  void take(uint32_t from, uint32_t to, double sign) {
    for (const uint32_t link : fabric_.route(from, to)) left_[link] -= sign * gb_s_ * fabric_.load(from, to);
  }
  bool try_take(uint32_t from, uint32_t to) {
    if (!fits(from, to)) return false;
    take(from, to, 1);
    if (!paired_) return true;
    if (fits(to, from)) return take(to, from, 1), true;
    take(from, to, -1);
    return false;
  }
  void give_back(uint32_t from, uint32_t to) {
    take(from, to, -1);
    if (paired_) take(to, from, -1);
  }

  void start_ring() {
    path_ = {0};
    taken_.assign(fabric_.gpus(), false);
    taken_[0] = true;
    extend();
  }

  void extend() {
    if (done()) return;
    ++steps_;
    const uint32_t n = fabric_.gpus(), at = path_.back();
    if (path_.size() == n) {
      if (n > 1 && !try_take(at, path_[0])) return;
      close_ring();
      if (n > 1) give_back(at, path_[0]);
      return;
    }
    for (const uint32_t next : candidates(at)) {
      if (!try_take(at, next)) continue;
      taken_[next] = true;
      path_.push_back(next);
      extend();
      path_.pop_back();
      taken_[next] = false;
      give_back(at, next);
      if (done()) return;
    }
  }

  void close_ring() {
    const std::vector<uint32_t> path = path_;
    const std::vector<bool> taken = taken_;
    rings_.push_back(path);
    if (paired_) {
      rings_.push_back(path);
      std::reverse(rings_.back().begin() + 1, rings_.back().end());
    }
    if (rings_.size() > best_.size()) best_ = rings_;
    if (!done()) start_ring();
    path_ = path;
    taken_ = taken;
    rings_.resize(rings_.size() - (paired_ ? 2 : 1));
  }

  // The nearest first, so that what is far away is left where possible; then those with the most room.
  std::vector<uint32_t> candidates(uint32_t at) const {
    std::vector<uint32_t> list;
    for (uint32_t g = 0; g < fabric_.gpus(); ++g)
      if (!taken_[g]) list.push_back(g);
    const auto room = [&](uint32_t to) {
      double least = 1e9;
      for (const uint32_t link : fabric_.route(at, to)) least = std::min(least, left_[link]);
      return least;
    };
    std::ranges::stable_sort(list, [&](uint32_t a, uint32_t b) {
      const PathClass to_a = fabric_.between_gpus(at, a).path_class, to_b = fabric_.between_gpus(at, b).path_class;
      return to_a != to_b ? to_a < to_b : room(a) > room(b) + kSlack;
    });
    return list;
  }

  const Fabric& fabric_;
  const PathClass farthest_;
  const double gb_s_;
  const bool paired_;
  std::vector<double> left_;
  std::vector<bool> taken_;
  std::vector<uint32_t> path_;
  RingList rings_, best_;
  size_t enough_ = 0;
  uint32_t steps_ = 0;
};

// How many rings of `gb_s` the GPU with the fewest links could be on.
size_t most_rings(const Fabric& fabric, double gb_s) {
  double least = 1e9;
  for (uint32_t g = 0; g < fabric.gpus(); ++g) {
    std::set<uint32_t> first;
    for (uint32_t other = 0; other < fabric.gpus(); ++other)
      if (other != g && !fabric.route(g, other).empty()) first.insert(fabric.route(g, other)[0]);
    double sum = 0;
    for (const uint32_t link : first) sum += fabric.link_gb_s()[link];
    least = std::min(least, sum);
  }
  return std::min<size_t>(kMostRings, static_cast<size_t>(least / gb_s + kSlack));
}

// Bandwidths that a ring could have, the greatest first: of single paths, and parts of them.
std::vector<double> candidate_speeds(const Fabric& fabric, PathClass farthest) {
  std::set<double, std::greater<>> speeds;
  for (uint32_t a = 0; a < fabric.gpus(); ++a)
    for (uint32_t b = 0; b < fabric.gpus(); ++b)
      if (a != b && fabric.between_gpus(a, b).path_class <= farthest)
        for (const int part : {1, 2, 3, 4}) speeds.insert(fabric.between_gpus(a, b).gb_s / part);
  return {speeds.begin(), speeds.end()};
}

RingList rings_within(const Fabric& fabric, PathClass farthest, double& gb_s) {
  RingList best;
  gb_s = 0;
  for (const double speed : candidate_speeds(fabric, farthest)) {
    const size_t most = most_rings(fabric, speed);
    for (const bool paired : {true, false}) {
      if (static_cast<double>(most) * speed <= gb_s * static_cast<double>(best.size()) + kSlack) break;
      RingList rings = RingSearch(fabric, farthest, speed, paired).search(most);
      if (static_cast<double>(rings.size()) * speed <= gb_s * static_cast<double>(best.size()) + kSlack) continue;
      best = std::move(rings);
      gb_s = speed;
    }
  }
  return best;
}

// With neighbours as near each other as can be: a way that leaves NVLink is not worth what it adds.
RingList best_rings(const Fabric& fabric, double& gb_s) {
  for (auto farthest = PathClass::loc; farthest < PathClass::net && fabric.gpus() > 1;
       farthest = static_cast<PathClass>(static_cast<int>(farthest) + 1)) {
    RingList rings = rings_within(fabric, farthest, gb_s);
    if (!rings.empty()) return rings;
  }
  // One GPU, or some that no known path joins: in the order of their numbers.
  RingList one(1, std::vector<uint32_t>(fabric.gpus()));
  std::iota(one[0].begin(), one[0].end(), 0u);
  gb_s = fabric.gpus() == 1 ? fabric.between_gpus(0, 0).gb_s : 0;
  return one;
}

// The cards that GPUs are served by, each once.
std::vector<uint32_t> cards_of(const Fabric& fabric) {
  std::set<uint32_t> cards;
  for (uint32_t g = 0; g < fabric.gpus(); ++g)
    if (fabric.nic_of(g) != kNone) cards.insert(static_cast<uint32_t>(fabric.nic_of(g)));
  return {cards.begin(), cards.end()};
}

// Turned so that the card is as near as can be to the first GPU and to the last.
void open_at(const Fabric& fabric, uint32_t nic, LaneOrder& lane) {
  const auto classes = [&](size_t first) {
    const uint32_t in = lane.gpus[first], out = lane.gpus[(first + lane.gpus.size() - 1) % lane.gpus.size()];
    const PathClass a = fabric.to_nic(in, nic).path_class, b = fabric.to_nic(out, nic).path_class;
    return std::tuple(std::max(a, b), a, b);
  };
  size_t best = 0;
  for (size_t i = 1; i < lane.gpus.size(); ++i)
    if (classes(i) < classes(best)) best = i;
  std::rotate(lane.gpus.begin(), lane.gpus.begin() + static_cast<ptrdiff_t>(best), lane.gpus.end());
  lane.nic = static_cast<int32_t>(nic);
  lane.in = fabric.to_nic(lane.gpus.front(), nic);
  lane.out = fabric.to_nic(lane.gpus.back(), nic);
}

}  // namespace

NodeOrder find_order(const Fabric& fabric) {
  NodeOrder order;
  if (fabric.gpus() == 0) return order;
  double gb_s = 0;
  const RingList rings = best_rings(fabric, gb_s);
  order.gb_s = gb_s * static_cast<double>(rings.size());
  const std::vector<uint32_t> cards = cards_of(fabric);
  // A ring serves several cards where there are more cards than rings: then it is there once for each of them.
  const size_t lanes = std::min(std::max(rings.size(), cards.size()), std::max(kMostRings, rings.size()));
  std::map<uint32_t, double> lanes_of_card;
  for (size_t l = 0; l < lanes; ++l) {
    LaneOrder lane;
    lane.gpus = rings[l % rings.size()];
    // Lanes of one ring share its bandwidth.
    lane.gb_s = gb_s / static_cast<double>((lanes - 1 - l % rings.size()) / rings.size() + 1);
    for (size_t i = 0; i < lane.gpus.size() && lane.gpus.size() > 1; ++i)
      lane.widest_class = std::max(lane.widest_class,
                                   fabric.between_gpus(lane.gpus[i], lane.gpus[(i + 1) % lane.gpus.size()]).path_class);
    if (!cards.empty()) open_at(fabric, cards[l % cards.size()], lane);
    if (lane.nic != kNone) ++lanes_of_card[static_cast<uint32_t>(lane.nic)];
    order.lanes.push_back(std::move(lane));
  }
  for (const LaneOrder& lane : order.lanes)
    if (lane.nic != kNone)
      order.between_gb_s += std::min({lane.gb_s, lane.in.gb_s / lanes_of_card[static_cast<uint32_t>(lane.nic)],
                                      lane.out.gb_s / lanes_of_card[static_cast<uint32_t>(lane.nic)]});
  return order;
}

void Cluster::add_node(const Machine& machine) {
  Machine structure = structure_of(machine);
  uint32_t kind = 0;
  while (kind < kinds_.size() && kinds_[kind].machine != structure) ++kind;
  if (kind == kinds_.size()) {
    Fabric fabric(structure);
    NodeOrder order = find_order(fabric);
    kinds_.push_back({std::move(structure), std::move(fabric), std::move(order)});
  }
  if (first_rank_.empty()) first_rank_.push_back(0);
  first_rank_.push_back(first_rank_.back() + kinds_[kind].fabric.gpus());
  kind_of_.push_back(kind);
}

Path Cluster::between(uint32_t rank, uint32_t other) const {
  const auto node_of = [&](uint32_t r) {
    return static_cast<uint32_t>(std::ranges::upper_bound(first_rank_, r) - first_rank_.begin()) - 1;
  };
  const uint32_t a = node_of(rank), b = node_of(other);
  const Fabric &from = kinds_[kind_of_[a]].fabric, &to = kinds_[kind_of_[b]].fabric;
  const uint32_t gpu = rank - first_rank_[a], peer = other - first_rank_[b];
  if (a == b) return from.between_gpus(gpu, peer);
  Path path;
  if (from.nic_of(gpu) == kNone || to.nic_of(peer) == kNone) return path;
  const Path &out = from.to_nic(gpu, static_cast<uint32_t>(from.nic_of(gpu))),
             &in = to.to_nic(peer, static_cast<uint32_t>(to.nic_of(peer)));
  return {PathClass::net, std::min(out.gb_s, in.gb_s), out.hops + in.hops + 1};
}

std::vector<std::vector<uint32_t>> Cluster::rings() const {
  size_t lanes = 0;
  for (const Kind& kind : kinds_) lanes = std::max(lanes, kind.order.lanes.size());
  std::vector<std::vector<uint32_t>> rings(lanes);
  for (size_t lane = 0; lane < lanes; ++lane) {
    rings[lane].reserve(ranks());
    for (uint32_t node = 0; node < nodes(); ++node) {
      const std::vector<LaneOrder>& own = order_of(node).lanes;
      if (own.empty()) continue;
      for (const uint32_t gpu : own[lane % own.size()].gpus) rings[lane].push_back(first_rank_[node] + gpu);
    }
  }
  return rings;
}

}  // namespace tutti
