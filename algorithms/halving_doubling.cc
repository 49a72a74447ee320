// Halving and doubling: a reduce-scatter whose messages halve, then an all-gather whose messages double.
//
//   n = 8    round   1    2    3  |  4    5    6
//            blocks  4    2    1  |  1    2    4        of n, to the rank at the same distance
//
// The bytes of a ring at the latencies of a tree: 2 ceil(log2 n) rounds and 2 (n - 1) / n vectors. This is
// Rabenseifner's all_reduce (Thakur, Rabenseifner and Gropp 2005) on a circulant graph instead of a hypercube, so that
// an n that is no power of two costs nothing extra (circulant.h).
#include "algorithms/circulant.h"
#include "algorithms/rows.h"
#include "plan/builder.h"

namespace tutti {
namespace {

bool applies(const Shape& shape) { return fits(shape, 1) && shape.nranks <= UINT16_MAX; }

Plan all_reduce(const Shape& shape, Rank self) {
  const uint32_t n = shape.nranks;
  if (n == 1) return alone_plan(shape);
  PlanBuilder plan(n);
  LaneBuilder lane = plan.lane();
  circulant_reduce_scatter(lane, n, self, ChannelId{0}, Buffer::out, Buffer::out, self);
  circulant_all_gather(lane, n, self, ChannelId{0});
  return std::move(plan).build();
}

// The input is not ours to write, so partial sums live in scratch, each at its own chunk's number.
Plan reduce_scatter(const Shape& shape, Rank self) {
  const uint32_t n = shape.nranks;
  if (n == 1) return alone_plan(shape);
  PlanBuilder plan(n, n > 2 ? n : 0);
  LaneBuilder lane = plan.lane();
  circulant_reduce_scatter(lane, n, self, ChannelId{0}, Buffer::scratch, Buffer::out, 0);
  return std::move(plan).build();
}

CostTerms all_reduce_terms(const Shape& shape) {
  if (shape.nranks == 1) return alone_terms(shape);
  return circulant_terms(shape.nranks,
                         circulant_reduce_scatter_work(shape.nranks) + circulant_all_gather_work(shape.nranks));
}
CostTerms reduce_scatter_terms(const Shape& shape) {
  if (shape.nranks == 1) return alone_terms(shape);
  return circulant_terms(shape.nranks, circulant_reduce_scatter_work(shape.nranks));
}

constexpr Algorithm kRows[] = {
    {"halving_doubling", Collective::all_reduce, applies, all_reduce, all_reduce_terms},
    {"halving_doubling", Collective::reduce_scatter, applies, reduce_scatter, reduce_scatter_terms},
    {"halving_doubling", Collective::all_gather, applies, circulant_all_gather, circulant_all_gather_terms},
};

}  // namespace

std::span<const Algorithm> halving_doubling_rows() { return kRows; }

}  // namespace tutti
