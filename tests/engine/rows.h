// The rows of the algorithm table as test parameters.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/engine/ensemble.h"

namespace tutti {

inline std::vector<const Algorithm*> algorithms_that(bool (*wanted)(const Algorithm&)) {
  std::vector<const Algorithm*> rows;
  for (const Algorithm& a : all_algorithms())
    if (wanted(a)) rows.push_back(&a);
  return rows;
}

inline std::string name_of_row(const testing::TestParamInfo<const Algorithm*>& row) {
  return fmt::format("{}_for_{}", row.param->name, name_of(row.param->collective));
}

// A test's listed name holds its parameter, and must not change from run to run as an address does.
inline void PrintTo(const Algorithm* a, std::ostream* out) { *out << a->name << " for " << name_of(a->collective); }
inline void PrintTo(LinkKind kind, std::ostream* out) { *out << name_of(kind) << " links"; }

}  // namespace tutti
