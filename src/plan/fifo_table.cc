#include "plan/fifo_table.h"

#include <bit>

namespace tutti {

FifoTable::FifoTable(std::span<const Plan> plans) {
  size_t slots = 0;
  for (const Plan& plan : plans)
    for (const Lane& lane : plan.lanes) slots += lane.peers.size();
  slots_.reserve(slots);
  buckets_.assign(std::bit_ceil(4 * slots + 1), 0);  // each slot names two FIFOs
  for (uint32_t r = 0; r < plans.size(); ++r)
    for (const Lane& lane : plans[r].lanes)
      for (const Peer& peer : lane.peers)
        slots_.push_back({id_of({Rank{r}, peer.rank, peer.channel}), id_of({peer.rank, Rank{r}, peer.channel})});
}

uint32_t FifoTable::id_of(const Name& name) {
  const uint64_t key =
      ((static_cast<uint64_t>(name.source) << 32) | static_cast<uint32_t>(name.destination)) * 64 + name.channel;
  const size_t mask = buckets_.size() - 1;
  size_t bucket = static_cast<size_t>((key * 0x9e3779b97f4a7c15ULL) >> 20) & mask;  // Fibonacci hashing
  for (; buckets_[bucket] != 0; bucket = (bucket + 1) & mask) {
    const Name& other = names_[buckets_[bucket] - 1];
    if (other.source == name.source && other.destination == name.destination && other.channel == name.channel)
      return buckets_[bucket] - 1;
  }
  names_.push_back(name);
  buckets_[bucket] = size();
  return size() - 1;
}

}  // namespace tutti
