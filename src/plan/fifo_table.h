// FifoTable: which FIFO is behind each peer slot, over the plans of all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace tutti {

class FifoTable {
 public:
  // Every plan has passed check_plan. O(slots), by hashing.
  explicit FifoTable(std::span<const Plan> plans);

  struct Name {
    Rank source, destination;
    ChannelId channel;
  };
  struct Slot {
    uint32_t send, recv;  // FIFO ids
  };

  uint32_t size() const { return static_cast<uint32_t>(names_.size()); }
  const Name& name(uint32_t fifo) const { return names_[fifo]; }
  // Slots of all lanes back to back: those of rank r's lane l begin at first_slot of lane number first_lane(r) + l.
  const Slot& slot(uint32_t first_slot, uint32_t k) const { return slots_[first_slot + k]; }

 private:
  uint32_t id_of(const Name& name);

  std::vector<Slot> slots_;
  std::vector<Name> names_;
  std::vector<uint32_t> buckets_;  // FIFO id + 1, open addressing, at most half full
};

}  // namespace tutti
