#include "comm/tuner.h"

#include <algorithm>

namespace tutti {
namespace {

// Our order of preference for a collective at a size of the wide buffer; the first that exists, applies and is allowed is
// taken. The sizes are estimates from counting hand-overs and bytes moved, not measurements.
std::vector<std::string_view> preferences(Collective collective, uint64_t bytes, const Facts& facts) {
  const uint32_t n = facts.nranks;
  switch (collective) {
    case Collective::all_reduce:
      // One-shot moves n times the bytes but in one hand-over; two-shot has two hand-overs and moves the minimum.
      if (bytes <= 4096 && n <= 8) return {"all_pairs_one_shot", "recursive_doubling", "all_pairs", "ring", "tree"};
      if (bytes <= 4096) return {"recursive_doubling", "halving_doubling", "tree", "all_pairs", "ring"};
      if (n <= 16 || bytes / n <= 4096) return {"all_pairs", "halving_doubling", "ring", "tree", "recursive_doubling"};
      return {"ring", "halving_doubling", "all_pairs", "tree", "recursive_doubling"};
    case Collective::broadcast:
    case Collective::reduce:
      if (n <= 4 && bytes <= 16 * 1024) return {"all_pairs", "tree", "ring"};
      return n <= 4 ? std::vector<std::string_view>{"ring", "tree", "all_pairs"}
                    : std::vector<std::string_view>{"tree", "ring", "all_pairs"};
    case Collective::all_gather:
    case Collective::reduce_scatter:
      if (n > 16 && bytes <= 64 * 1024) return {"recursive_doubling", "halving_doubling", "all_pairs", "ring"};
      return n > 16 ? std::vector<std::string_view>{"ring", "all_pairs", "recursive_doubling", "halving_doubling"}
                    : std::vector<std::string_view>{"all_pairs", "ring", "recursive_doubling", "halving_doubling"};
    default:
      return {};
  }
}

std::string names_for(Collective collective) {
  std::string names;
  for (const Algorithm& a : all_algorithms())
    if (a.collective == collective) names += fmt::format("{}{}", names.empty() ? "" : ", ", a.name);
  return names;
}

// Barriers and point-to-point messages have one algorithm each, so a general list is not about them.
bool general_list_applies(Collective c) {
  return c != Collective::barrier && c != Collective::send && c != Collective::recv;
}

}  // namespace

Result<Tuner> Tuner::create(const Config& config, const Facts& facts) {
  for (const std::string& name : config.algo.general.names) {
    const auto all = all_algorithms();
    if (std::none_of(all.begin(), all.end(), [&](const Algorithm& a) { return a.name == name; })) {
      std::vector<std::string_view> known;
      for (const Algorithm& a : all)
        if (std::find(known.begin(), known.end(), a.name) == known.end()) known.push_back(a.name);
      const std::string_view near = nearest_name(name, known);
      return invalid_usage("TUTTI_ALGO names '{}', which is no algorithm; there are {}{}", name, fmt::join(known, ", "),
                           near.empty() ? "" : fmt::format("; did you mean {}?", near));
    }
  }
  for (const auto& [collective, list] : config.algo.per_collective)
    for (const std::string& name : list.names)
      if (!find_algorithm(name, collective))
        return invalid_usage("TUTTI_ALGO names '{}' for {}, which has {}", name, name_of(collective),
                             names_for(collective));
  return Tuner(config, facts);
}

uint64_t Tuner::tile_bytes() const {
  // Mapped: a tile passes through the second-level cache of both ends; put: long enough to pay for its system calls.
  uint64_t tile = facts_.all_mapped ? 64 * 1024 : 256 * 1024;
  if (tile_bytes_) tile = *tile_bytes_;
  return std::min(tile, facts_.max_message_bytes);
}

Result<Choice> Tuner::choose(Collective collective, Rank root, uint64_t bytes) const {
  Choice choice;
  choice.lanes = lanes_.value_or(1);
  choice.tile_bytes = tile_bytes();
  const Shape shape{collective, facts_.nranks, root, choice.lanes};
  const NameList unrestricted;
  const NameList& list = filter_.for_collective(collective);
  const bool only_general = std::none_of(filter_.per_collective.begin(), filter_.per_collective.end(),
                                         [&](const auto& entry) { return entry.first == collective; });
  const NameList& allowed = only_general && !general_list_applies(collective) ? unrestricted : list;
  uint32_t candidates = 0;
  const auto consider = [&](const Algorithm& a) {
    if (a.collective != collective || !allowed.allows(a.name) || !a.applies(shape)) return;
    ++candidates;
    if (!choice.algorithm) choice.algorithm = &a;
  };
  // An including list is itself an order of preference.
  if (!allowed.exclude)
    for (const std::string& name : allowed.names)
      if (const Algorithm* a = find_algorithm(name, collective)) consider(*a);
  if (!choice.algorithm)
    for (std::string_view name : preferences(collective, bytes, facts_))
      if (const Algorithm* a = find_algorithm(name, collective)) consider(*a);
  if (!choice.algorithm)
    for (const Algorithm& a : all_algorithms()) consider(a);
  if (!choice.algorithm)
    return invalid_usage("TUTTI_ALGO leaves no algorithm for {} of {} ranks; it can be {}", name_of(collective),
                         static_cast<uint32_t>(facts_.nranks), names_for(collective));
  choice.forced = !allowed.empty() && candidates == 1;
  return choice;
}

}  // namespace tutti
