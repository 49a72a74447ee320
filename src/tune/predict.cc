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

// Bytes of messages that lie in a core's second-level cache from when they are written to when they are read: in the
// slots of all of a rank's mapped links, and of all ranks of the core; from put links only the message at hand, where
// the kernel's copy of it went through the cache as well.
double in_flight(const CostTerms& terms, const Facts& facts, double tile_bytes) {
  const double message_bytes = tile_bytes * terms.span;
  if (facts.links != LinkKind::mapped) return 2 * message_bytes;
  return message_bytes * terms.copies * terms.peers * ranks_per_core(facts);
}

Prices prices_of(const CostTerms& terms, const Facts& facts, LinkKind links, double tile_bytes) {
  const Parameters& p = facts.parameters;
  const LinkParameters& link = p.link(links);
  // What does not fit the cache has gone to the next level before it is read.
  const double l2 = static_cast<double>(facts.l2_bytes > 0 ? facts.l2_bytes : kUsualL2Bytes);
  const double outside = std::clamp(1 - l2 / std::max(in_flight(terms, facts, tile_bytes), 1.0), 0.0, 1.0);
  const double dearer = 1 + p.spill * outside;
  return {.step_s = p.step_s,
          .wait_s = link.latency_s,
          .wait_s_per_byte = link.transit_s_per_byte,
          .message_s = link.message_s,
          .send_s_per_byte = link.send_s_per_byte * dearer,
          .receive_s_per_byte = link.receive_s_per_byte * dearer,
          .fold_s_per_byte = p.fold_s_per_byte * dearer,
          .store_s_per_byte = p.store_s_per_byte};
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
  Prices prices = prices_of(terms, facts, facts.links, tile_bytes);
  Prices near_prices = prices_of(terms, facts, facts.near_links, tile_bytes);
  Prediction prediction;
  const double operation_s = facts.parameters.operation_s;
  prediction.way_s = operation_s + seconds(terms.first, prices, tile_bytes) +
                     (tiles - 1) * slowest_stage(terms, prices, tile_bytes) +
                     tiles * seconds(terms.near, near_prices, tile_bytes);
  for (Prices* p : {&prices, &near_prices}) p->wait_s = p->wait_s_per_byte = 0;
  // While one lane makes a step, the thread looks at all others as well, mostly in vain.
  for (Prices* p : {&prices, &near_prices}) p->step_s *= terms.lanes * terms.copies;
  const double lane_tiles = tiles * terms.copies;
  const double near_s = seconds(terms.near, near_prices, tile_bytes);
  prediction.rank_s = operation_s + lane_tiles * (seconds(terms.busiest, prices, tile_bytes) + near_s);
  if (!facts.oversubscribed()) return prediction;
  // Whoever waits gives its core to the next; copies wait at the same time, so they count once.
  const double share = static_cast<double>(facts.crowded_ranks) / facts.nranks;
  const double work_s = lane_tiles * (seconds(terms.all, prices, tile_bytes) + facts.nranks * near_s);
  const double latency_s = facts.parameters.link(facts.links).latency_s;  // of TCP, this is work as well
  const double near_latency_s = facts.parameters.link(facts.near_links).latency_s;
  const double handover_s = terms.all.waits * (facts.parameters.handover_s + latency_s) +
                            facts.nranks * terms.near.waits * (facts.parameters.handover_s + near_latency_s);
  const bool pipelined = std::ranges::all_of(terms.stages, [](const Work& stage) { return stage.waits == 0; });
  const double handovers_s = handover_s * (pipelined ? 1 + (tiles - 1) / kTilesAhead : tiles);
  prediction.cores_s = operation_s + share * (work_s + handovers_s) / facts.crowded_cores;
  return prediction;
}

}  // namespace tutti
