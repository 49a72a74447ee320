// What the tests of data share: every type, every operation, and numbers of ranks.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "perf/element.h"

namespace tutti::perf {

inline std::vector<tuttiDataType_t> all_types() {
  std::vector<tuttiDataType_t> types;
  for (int type = 0; type < tuttiNumTypes; ++type) types.push_back(static_cast<tuttiDataType_t>(type));
  return types;
}

inline std::vector<Operation> all_operations() {
  std::vector<Operation> operations;
  for (int operation = 0; operation < kOperationCount; ++operation)
    operations.push_back(static_cast<Operation>(operation));
  return operations;
}

inline std::string name_of_type(const testing::TestParamInfo<tuttiDataType_t>& type) {
  return std::string(type_name(type.param));
}

inline const std::vector<int>& rank_counts() {
  static const std::vector<int> counts = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 64};
  return counts;
}

}  // namespace tutti::perf
