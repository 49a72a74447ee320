// PlanCache: plans that were made once, by everything that a plan depends on. Sizes, types and addresses are not part
// of it, so a communicator needs few plans however many different calls it sees.
//
// One per communicator. Not thread-safe: its owner locks. References stay valid until clear().
#pragma once

#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "plan/plan.h"

namespace tutti {

struct PlanKey {
  std::string_view algorithm;  // a name from the table of algorithms, which lives as long as the program
  Shape shape;
  Rank rank;
  bool operator==(const PlanKey&) const = default;
};

class PlanCache {
 public:
  // The plan of the key, made by `make()` the first time. O(1) after that.
  template <class Make>
  const Plan& get(const PlanKey& key, Make&& make) {
    const auto known = plans_.find(key);
    if (known != plans_.end()) return known->second;
    return plans_.emplace(key, std::forward<Make>(make)()).first->second;
  }
  size_t size() const { return plans_.size(); }
  void clear() { plans_.clear(); }

 private:
  struct Hash {
    size_t operator()(const PlanKey& key) const {
      size_t h = std::hash<std::string_view>()(key.algorithm);
      for (const uint32_t field :
           {static_cast<uint32_t>(key.shape.collective), static_cast<uint32_t>(key.shape.nranks),
            static_cast<uint32_t>(key.shape.root), key.shape.lanes, static_cast<uint32_t>(key.rank)})
        h = (h ^ field) * 0x9e3779b97f4a7c15ULL;
      return h;
    }
  };
  std::unordered_map<PlanKey, Plan, Hash> plans_;
};

}  // namespace tutti
