// What the tests of data share: every type with every operation, and numbers of ranks.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "perf/element.h"

namespace tutti::perf {

struct Kind {
  tuttiDataType_t type;
  Operation operation;
};

inline std::vector<Kind> all_kinds() {
  std::vector<Kind> kinds;
  for (int type = 0; type < tuttiNumTypes; ++type)
    for (int operation = 0; operation < kOperationCount; ++operation)
      kinds.push_back({static_cast<tuttiDataType_t>(type), static_cast<Operation>(operation)});
  return kinds;
}

inline std::string name_of_kind(const testing::TestParamInfo<Kind>& info) {
  return std::string(type_name(info.param.type)) + "_" + std::string(operation_name(info.param.operation));
}

inline const std::vector<int>& rank_counts() {
  static const std::vector<int> counts = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 64};
  return counts;
}

}  // namespace tutti::perf
