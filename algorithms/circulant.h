// Rounds on a circulant graph: the reduce-scatter and all-gather in ceil(log2 n) rounds that recursive_doubling and
// halving_doubling are made of, for any n alike (Bruck et al. 1997; Traeff 2024, "Optimal, non-pipelined reduce-scatter
// and allreduce algorithms").
//
//   reach(0) = n, reach(k + 1) = ceil(reach(k) / 2), ..., 1.   n = 6: 6 3 2 1
//
//   reduce-scatter, round k  rank r holds partial sums of blocks r .. r + reach(k) - 1. With d = reach(k + 1) it sends
//                            those from r + d on to rank r + d, and folds what comes from r - d into its first ones.
//   all-gather               the same rounds backwards: r sends its first blocks to r - d, and gets those from r + d
//   on.
//
// Every block is sent n - 1 times over all ranks, as in a ring. Messages span blocks, and spans wrap around.
#pragma once

#include "plan/builder.h"
#include "plan/work.h"

namespace tutti {

// Whole plan of an all_gather. One lane and one copy, whatever shape.lanes says: a copy's chunks of neighbouring blocks
// would not be contiguous.
Plan circulant_all_gather(const Shape& shape, Rank self);

// Appends the rounds of a reduce-scatter over `n` chunks, partial sums kept in `partial` (out or scratch), the own
// chunk's sum completed into `result` at chunk `result_chunk`. n >= 2.
void circulant_reduce_scatter(LaneBuilder lane, uint32_t n, Rank self, ChannelId channel, Buffer partial, Buffer result,
                              uint32_t result_chunk);
// Appends the rounds of an all-gather over `n` chunks of out; the own one is there.
void circulant_all_gather(LaneBuilder lane, uint32_t n, Rank self, ChannelId channel);

// What these cost a rank. All are in step. n >= 2.
CostTerms circulant_all_gather_terms(const Shape& shape);
CostTerms circulant_terms(uint32_t n, const Work& rank);
Work circulant_reduce_scatter_work(uint32_t n);
Work circulant_all_gather_work(uint32_t n);

}  // namespace tutti
