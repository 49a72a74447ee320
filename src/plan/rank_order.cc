#include "plan/rank_order.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace tutti {

RankOrder::RankOrder(const std::vector<std::string_view>& hosts, const std::vector<uint32_t>& positions) {
  std::map<std::string_view, uint32_t> node_of_host;
  std::vector<std::vector<Rank>> nodes;
  for (uint32_t r = 0; r < hosts.size(); ++r) {
    const auto [place, added] = node_of_host.emplace(hosts[r], static_cast<uint32_t>(nodes.size()));
    if (added) nodes.emplace_back();
    nodes[place->second].push_back(Rank{r});
  }
  if (!positions.empty())
    for (std::vector<Rank>& node : nodes) std::ranges::stable_sort(node, {}, [&](Rank r) { return positions[r]; });
  for (const std::vector<Rank>& node : nodes) rank_at_.insert(rank_at_.end(), node.begin(), node.end());
  place_of_.resize(rank_at_.size());
  for (uint32_t p = 0; p < rank_at_.size(); ++p) place_of_[rank_at_[p]] = Rank{p};
  if (std::ranges::is_sorted(rank_at_)) {
    rank_at_.clear();
    place_of_.clear();
  }
  const bool even = std::ranges::all_of(nodes, [&](const auto& node) { return node.size() == nodes[0].size(); });
  if (even && nodes.size() > 1) ranks_per_node_ = static_cast<uint32_t>(nodes[0].size());
}

bool RankOrder::applies_to(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::barrier:
      return true;
    default:
      return false;
  }
}

void RankOrder::put(Plan& plan) const {
  if (trivial()) return;
  for (Lane& lane : plan.lanes)
    for (Peer& peer : lane.peers) peer.rank = rank_at_[peer.rank];
}

}  // namespace tutti
