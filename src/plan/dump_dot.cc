#include <map>
#include <tuple>

#include "plan/dump.h"
#include "plan/machine.h"

namespace tutti {
namespace {

// The two ends of a FIFO as nodes, found from each end's moves.
struct Edge {
  std::string from, to;
  uint32_t messages = 0;
};
using FifoKey = std::tuple<uint32_t, uint32_t, uint16_t>;  // source, destination, channel

std::string node(size_t rank, size_t lane) { return fmt::format("r{}l{}", rank, lane); }

void add_lane(const Plan& plan, uint32_t rank, size_t lane_number, std::map<FifoKey, Edge>& edges) {
  const Lane& lane = plan.lanes[lane_number];
  for (Cursor cursor; !at_end(lane, cursor); advance(lane, cursor)) {
    const Step step = decode(plan, lane, cursor);
    for (uint32_t k = 0; k < step.recv_count; ++k) {
      const Peer& peer = lane.peers[slot_after(lane, step.recv_first, k)];
      edges[{peer.rank, rank, peer.channel}].to = node(rank, lane_number);
    }
    for (uint32_t k = 0; k < step.send_count; ++k) {
      const Peer& peer = lane.peers[slot_after(lane, step.send_first, k)];
      Edge& edge = edges[{rank, peer.rank, peer.channel}];
      edge.from = node(rank, lane_number);
      ++edge.messages;
    }
  }
}

}  // namespace

std::string to_dot(std::span<const Plan> plans) {
  std::string text = "digraph plan {\n  rankdir=LR;\n  node [shape=box];\n";
  std::map<FifoKey, Edge> edges;
  for (uint32_t r = 0; r < plans.size(); ++r) {
    text += fmt::format("  subgraph cluster_{} {{\n    label=\"rank {}\";\n", r, r);
    for (size_t l = 0; l < plans[r].lanes.size(); ++l) {
      text += fmt::format("    {} [label=\"lane {}\"];\n", node(r, l), l);
      add_lane(plans[r], r, l, edges);
    }
    text += "  }\n";
  }
  for (const auto& [key, edge] : edges) {
    const auto& [source, destination, channel] = key;
    if (edge.from.empty() || edge.to.empty()) continue;  // the other end is a rank whose plan was not given
    text += fmt::format("  {} -> {} [label=\"channel {}: {}\"];\n", edge.from, edge.to, channel, edge.messages);
  }
  return text + "}\n";
}

}  // namespace tutti
