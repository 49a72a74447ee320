// What Wiring tells of its choices.
#include <algorithm>
#include <map>

#include "base/log.h"
#include "comm/wiring.h"

namespace tutti {
namespace {

// "1, 4-7, 9": increasing numbers.
std::string ranges_of(const std::vector<uint32_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace

bool Wiring::first_here() const {
  return std::ranges::find(cards_, cards_[self_].host, &RankCard::host) - cards_.begin() == self_;
}

// One line a class of pairs, not one a pair: which transport serves it, and why each of the others does not.
void Wiring::log_routes() const {
  if (!log_enabled(LogLevel::info, Subsystem::init)) return;
  std::map<std::pair<bool, size_t>, std::vector<uint32_t>> classes;
  for (uint32_t r = 0; r < nranks_; ++r)
    if (r != self_) classes[{cards_[r].host != cards_[self_].host, route_[r]}].push_back(r);
  for (const auto& [kind, ranks] : classes) {
    const auto [elsewhere, route] = kind;
    std::string text = fmt::format("{} ({} {}) by {}", elsewhere ? "other hosts" : "this host",
                                   ranks.size() == 1 ? "rank" : "ranks", ranges_of(ranks), offers_[route].name);
    for (size_t i = 0; i < offers_.size(); ++i) {
      if (i < route) text += fmt::format("; not {}: {}", offers_[i].name, why_not(i, Rank{ranks[0]}));
      if (i > route) text += fmt::format("; not {}: {} is preferred", offers_[i].name, offers_[route].name);
    }
    log(LogLevel::info, Subsystem::init, static_cast<int>(self_), "{}{}", text, left_out_);
  }
  for (const NodeOrders::Told& host : node_orders_.told)
    if (host.first_rank == self_)
      log(LogLevel::info, Subsystem::init, static_cast<int>(self_), "GPUs of this host: {}", host.text);
}

}  // namespace tutti
