// The rows that each algorithm's file gives to the table in registry.cc, and the predicates they share.
#pragma once

#include <span>

#include "algorithms/algorithm.h"

namespace tutti {

std::span<const Algorithm> ring_rows();
std::span<const Algorithm> tree_rows();
std::span<const Algorithm> all_pairs_rows();
std::span<const Algorithm> recursive_doubling_rows();
std::span<const Algorithm> halving_doubling_rows();
std::span<const Algorithm> hierarchical_rows();
std::span<const Algorithm> point_to_point_rows();

// For algorithms of any size and root: the shape makes sense, and `channels_per_copy` channels for each of its copies
// exist.
bool fits(const Shape& shape, uint32_t channels_per_copy);

// The terms of alone_plan().
CostTerms alone_terms(const Shape& shape);
// Those of an algorithm in which all ranks do the same at the same time, so that a tile takes as long after another as
// by itself.
CostTerms terms_in_step(const Shape& shape, uint32_t chunks, uint32_t peers, const Work& rank);

}  // namespace tutti
