// Facts: what all ranks know alike once they have met; choices that must agree are made from these alone.
#pragma once

#include <cstdint>

#include "base/strong_int.h"
#include "tune/parameters.h"

namespace tutti {

struct Facts {
  Rank nranks{1};
  uint64_t max_message_bytes = UINT64_MAX;  // what every link carries
  LinkKind links = LinkKind::mapped;        // the slowest kind that serves a pair of ranks
  uint32_t ranks_per_node = 1;                // Shape::ranks_per_node
  LinkKind near_links = LinkKind::mapped;     // the slowest kind within a node
  // Of the node where most ranks share a core: its ranks, and the cores that these may use.
  uint32_t crowded_ranks = 1, crowded_cores = 1;
  uint64_t l2_bytes = 0;  // the least of all ranks; 0: not known
  Parameters parameters;

  bool oversubscribed() const { return crowded_ranks > crowded_cores; }
};

}  // namespace tutti
