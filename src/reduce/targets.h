// Which instruction sets the folds are compiled for, and choosing one by hand. For tests and benchmarks.
#pragma once

#include <string_view>
#include <vector>

namespace tutti {

// The names of those that this processor has, best first: what force_fold_target() takes.
std::vector<std::string_view> fold_targets();

// From now on every fold of the process uses that instruction set (an empty name: the best one again). False, and
// nothing changes, when it is not one of fold_targets(). Not to be called while another thread folds.
bool force_fold_target(std::string_view name);

}  // namespace tutti
