#include <algorithm>
#include <vector>

#include "algorithms/rows.h"
#include "plan/builder.h"

namespace tutti {

bool fits(const Shape& shape, uint32_t channels_per_copy) {
  return shape.nranks >= 1 && shape.root < shape.nranks && shape.lanes >= 1 &&
         shape.lanes <= kPlanChannels / channels_per_copy;
}

CostTerms alone_terms(const Shape& shape) {
  return terms_in_step({shape.collective, Rank{1}, Rank{0}, shape.lanes}, shape.lanes, 0, {.steps = 1, .stored = 1});
}

CostTerms terms_in_step(const Shape& shape, uint32_t chunks, uint32_t peers, const Work& rank) {
  return {.chunks = chunks,
          .copies = shape.lanes,
          .peers = peers,
          .first = rank,
          .stages = {rank},
          .busiest = rank,
          .all = static_cast<double>(shape.nranks) * rank};
}

std::span<const Algorithm> all_algorithms() {
  static const std::vector<Algorithm> table = [] {
    std::vector<Algorithm> rows;
    for (std::span<const Algorithm> part : {ring_rows(), tree_rows(), all_pairs_rows(), recursive_doubling_rows(),
                                            halving_doubling_rows(), hierarchical_rows(), point_to_point_rows()})
      rows.insert(rows.end(), part.begin(), part.end());
    return rows;
  }();
  return table;
}

const Algorithm* find_algorithm(std::string_view name, Collective collective) {
  const std::span<const Algorithm> table = all_algorithms();
  const auto row =
      std::ranges::find_if(table, [&](const Algorithm& a) { return a.name == name && a.collective == collective; });
  return row == table.end() ? nullptr : &*row;
}

}  // namespace tutti
