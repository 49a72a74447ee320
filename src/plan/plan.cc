#include "plan/plan.h"

#include "plan/machine.h"

namespace tutti {

Grid grid_of(Collective collective, Rank nranks, uint32_t chunks) {
  const uint32_t n = nranks;
  switch (collective) {
    case Collective::all_gather:
    case Collective::gather:
      return {1, n, chunks / n};
    case Collective::reduce_scatter:
    case Collective::scatter:
      return {n, 1, chunks / n};
    case Collective::all_to_all:
      return {n, n, chunks / n};
    default:
      return {1, 1, chunks};
  }
}

bool contributes_once(const Plan& plan) {
  std::vector<bool> loaded(plan.chunks);
  for (const Lane& lane : plan.lanes) {
    for (Cursor cursor; !at_end(lane, cursor); advance(lane, cursor)) {
      const Step step = decode(plan, lane, cursor);
      if (step.load_from != Buffer::in) continue;
      for (uint32_t k = 0; k < step.span; ++k) {
        const uint32_t chunk = wrap(step.load + k, plan.chunks);
        if (loaded[chunk]) return false;
        loaded[chunk] = true;
      }
    }
  }
  return true;
}

uint32_t chunk_count(const Plan& plan, const Grid& grid, Buffer buffer) {
  switch (buffer) {
    case Buffer::in:
      return grid.in_blocks * grid.chunks_per_block;
    case Buffer::out:
      return grid.out_blocks * grid.chunks_per_block;
    case Buffer::scratch:
      return plan.scratch_chunks;
    case Buffer::none:
      return 0;
  }
  return 0;
}

}  // namespace tutti
