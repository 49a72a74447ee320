#include "tune/predict.h"

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

constexpr uint64_t kUsualL2Bytes = 512 * 1024;  // where the machine does not say

// How far a rank of a pipeline gets before it must wait for the next: as many messages as a link has room for.
constexpr double kTilesAhead = 4;

double ranks_per_core(const Facts& facts) {
  return std::max(1.0, static_cast<double>(facts.crowded_ranks) / facts.crowded_cores);
}

// `in_flight`: bytes of the messages that a rank has under way, one a link.
Prices prices_of(const Facts& facts, double in_flight) {
  const Parameters& p = facts.parameters;
  const LinkParameters& link = p.link(facts.links);
  Prices prices{.step_s = p.step_s,
                .wait_s = link.latency_s,
                .message_s = link.message_s,
                .send_s_per_byte = link.send_s_per_byte,
                .receive_s_per_byte = link.receive_s_per_byte,
                .fold_s_per_byte = p.fold_s_per_byte,
                .store_s_per_byte = p.store_s_per_byte};
  // What lies in the slots of mapped links, or waits in a tile for the operands of a fold, is read a little later. If
  // it does not fit the second-level cache, that the ranks of a core share, it has gone to the next level by then.
  const double l2 = static_cast<double>(facts.l2_bytes > 0 ? facts.l2_bytes : kUsualL2Bytes);
  const double outside = std::clamp(1 - l2 / std::max(in_flight * ranks_per_core(facts), 1.0), 0.0, 1.0);
  const double dearer = 1 + p.spill * outside;
  prices.send_s_per_byte *= dearer;
  prices.receive_s_per_byte *= dearer;
  prices.fold_s_per_byte *= dearer;
  return prices;
}

}  // namespace

Cut cut(const CostTerms& terms, uint64_t bytes, uint64_t message_bytes) {
  const double chunk = std::ceil(static_cast<double>(bytes) / terms.chunks);
  const double most = std::max(1.0, static_cast<double>(message_bytes / terms.span));
  const double tiles = std::max(1.0, std::ceil(chunk / most));
  return {tiles, chunk / tiles};
}

Prediction predict(const CostTerms& terms, const Facts& facts, uint64_t bytes, uint64_t message_bytes) {
  const auto [tiles, tile_bytes] = cut(terms, bytes, message_bytes);
  Prices prices = prices_of(facts, tile_bytes * terms.span * terms.copies * terms.peers);
  Prediction prediction;
  const double operation_s = facts.parameters.operation_s;
  prediction.way_s =
      operation_s + seconds(terms.first, prices, tile_bytes) + (tiles - 1) * slowest_stage(terms, prices, tile_bytes);
  prices.wait_s = 0;
  const double lane_tiles = tiles * terms.copies;
  prediction.rank_s = operation_s + lane_tiles * seconds(terms.busiest, prices, tile_bytes);
  if (!facts.oversubscribed()) return prediction;
  // Whoever waits gives its core to the next; copies wait at the same time, so they count once.
  const double share = static_cast<double>(facts.crowded_ranks) / facts.nranks;
  const double work_s = lane_tiles * seconds(terms.all, prices, tile_bytes);
  const double latency_s = facts.parameters.link(facts.links).latency_s;  // of TCP, this is work as well
  const double handover_s = terms.all.waits * (facts.parameters.handover_s + latency_s);
  const bool pipelined = std::ranges::all_of(terms.stages, [](const Work& stage) { return stage.waits == 0; });
  const double handovers_s = handover_s * (pipelined ? 1 + (tiles - 1) / kTilesAhead : tiles);
  prediction.cores_s = operation_s + share * (work_s + handovers_s) / facts.crowded_cores;
  return prediction;
}

}  // namespace tutti
