#include "tune/tuner.h"

#include <algorithm>
#include <bit>

#include "base/log.h"

namespace tutti {
namespace {

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

// An automatic choice opens links to at most this many peers if there is another way: a link of shared memory takes up
// to 1 MiB at each end, one of TCP a descriptor and a handshake.
constexpr uint32_t kMostPeers = 16;

constexpr uint32_t kLaneCounts[] = {1, 2, 4};
constexpr uint64_t kLeastTileBytes = 4 * 1024, kMostTileBytes = 1024 * 1024, kTileUnitBytes = 64;

// Size classes, four to a power of two: the sizes that begin with the same three bits.
constexpr uint32_t kClasses = 4 * 64;
uint32_t class_of(uint64_t bytes) {
  if (bytes < 4) return static_cast<uint32_t>(bytes);
  const auto log2 = static_cast<uint32_t>(std::bit_width(bytes)) - 1;
  return 4 * (log2 - 1) + static_cast<uint32_t>(bytes >> (log2 - 2) & 3);
}
uint64_t least_of_class(uint32_t size_class) {
  return size_class < 4 ? size_class : uint64_t{4 + size_class % 4} << (size_class / 4 - 1);
}
// The size for which a class's choice is made: the middle of it.
uint64_t size_of_class(uint32_t size_class) {
  const uint64_t least = least_of_class(size_class);
  return least + (least_of_class(size_class + 1) - 1 - least) / 2;
}

// Choice as a word: bits 0..31 tile bytes, 32..47 lanes, 48..61 algorithm + 1, 62 forced.
uint64_t pack(const Choice& c) {
  const auto row = static_cast<uint64_t>(c.algorithm - all_algorithms().data());
  return c.tile_bytes | uint64_t{c.lanes} << 32 | (row + 1) << 48 | uint64_t{c.forced} << 62;
}
Choice unpack(uint64_t word) {
  return {&all_algorithms()[(word >> 48 & 0x3fff) - 1], static_cast<uint32_t>(word >> 32 & 0xffff), word & 0xffffffff,
          (word >> 62 & 1) != 0};
}

// The first that needs few peers, else the first.
const Candidate& best_of(const std::vector<Candidate>& table) {
  const auto few = std::ranges::find(table, false, &Candidate::many_peers);
  return few == table.end() ? table.front() : *few;
}

// The list for all collectives: of names that there are, and it leaves something to one of them.
Status check_general(const NameList& list) {
  std::vector<std::string_view> known, selectable;
  bool leaves_one = false;
  for (const Algorithm& a : all_algorithms()) {
    if (std::find(known.begin(), known.end(), a.name) == known.end()) known.push_back(a.name);
    if (!general_list_applies(a.collective)) continue;
    if (std::find(selectable.begin(), selectable.end(), a.name) == selectable.end()) selectable.push_back(a.name);
    leaves_one |= list.allows(a.name);
  }
  for (const std::string& name : list.names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string_view near = nearest_name(name, known);
    return invalid_usage("TUTTI_ALGO names '{}', which is no algorithm; there are {}{}", name, fmt::join(known, ", "),
                         near.empty() ? "" : fmt::format("; did you mean {}?", near));
  }
  if (leaves_one) return {};
  return invalid_usage("TUTTI_ALGO leaves no algorithm for any collective; there are {}", fmt::join(selectable, ", "));
}

Status check_own(Collective collective, const NameList& list) {
  for (const std::string& name : list.names)
    if (!find_algorithm(name, collective))
      return invalid_usage("TUTTI_ALGO names '{}' for {}, which has {}", name, name_of(collective),
                           names_for(collective));
  for (const Algorithm& a : all_algorithms())
    if (a.collective == collective && list.allows(a.name)) return {};
  return invalid_usage("TUTTI_ALGO leaves no algorithm for {}, which has {}", name_of(collective),
                       names_for(collective));
}

}  // namespace

Result<Tuner> Tuner::create(const Config& config, const Facts& facts, Rank self) {
  TUTTI_TRY(check_general(config.algo.general));
  for (const auto& [collective, list] : config.algo.per_collective) TUTTI_TRY(check_own(collective, list));
  return Tuner(config, facts, self);
}

Tuner::Tuner(const Config& config, const Facts& facts, Rank self)
    : filter_(config.algo),
      lanes_(config.lanes),
      tile_bytes_(config.tile_bytes),
      facts_(facts),
      self_(self),
      chosen_(new Word[kCollectiveCount * kClasses]()) {}

const NameList& Tuner::allowed(Collective collective) const {
  static const NameList unrestricted;
  const bool own = std::ranges::any_of(filter_.per_collective, [&](auto& entry) { return entry.first == collective; });
  return own || general_list_applies(collective) ? filter_.for_collective(collective) : unrestricted;
}

// Fills in the lanes and the tile that take the least time; false where the algorithm does not apply.
bool Tuner::best_cut(Candidate& candidate, Collective collective, Rank root, uint64_t bytes) const {
  bool applies = false;
  for (const uint32_t lanes :
       lanes_ ? std::span<const uint32_t>(&*lanes_, 1) : std::span<const uint32_t>(kLaneCounts)) {
    const Shape shape{collective, facts_.nranks, root, lanes, facts_.ranks_per_node};
    if (!candidate.algorithm->applies(shape)) continue;
    const CostTerms terms = candidate.algorithm->terms(shape);
    // More lanes than an algorithm has copies change nothing.
    if (applies && terms.copies < lanes) break;
    const auto attempt = [&](uint64_t tile_bytes) {
      const Candidate other{.algorithm = candidate.algorithm,
                            .lanes = lanes,
                            .tile_bytes = tile_bytes,
                            .terms = terms,
                            .cut = cut(terms, bytes, tile_bytes),
                            .prediction = predict(terms, facts_, bytes, tile_bytes)};
      // Of equal ones the first, which has fewer tiles.
      if (applies && other.weight() >= candidate.weight()) return;
      candidate = other;
      applies = true;
    };
    if (tile_bytes_) {
      attempt(std::min(*tile_bytes_, facts_.max_message_bytes));
      continue;
    }
    // Tiles that divide the longest chunk of the size class, so that no size of it leaves a small rest.
    const uint64_t most = std::min(facts_.max_message_bytes, kMostTileBytes);
    const uint64_t longest = (least_of_class(class_of(bytes) + 1) - 1) / terms.chunks + 1;
    for (uint64_t tiles = (longest - 1) / std::max<uint64_t>(most / terms.span, 1) + 1;; tiles += (tiles + 1) / 2) {
      const uint64_t tile = ((longest - 1) / tiles + 1) * terms.span;
      const bool least = tile <= kLeastTileBytes;
      attempt(std::min(most, (std::max(tile, kLeastTileBytes) + kTileUnitBytes - 1) / kTileUnitBytes * kTileUnitBytes));
      if (least) break;
    }
  }
  candidate.many_peers = candidate.terms.peers > kMostPeers;
  return applies;
}

std::vector<Candidate> Tuner::candidates(Collective collective, Rank root, uint64_t bytes) const {
  std::vector<Candidate> table;
  for (const Algorithm& a : all_algorithms()) {
    const NameList& list = allowed(collective);
    if (a.collective != collective || !list.allows(a.name)) continue;
    if (a.by_node && facts_.ranks_per_node == 1 && (list.empty() || list.exclude)) continue;
    Candidate candidate{.algorithm = &a};
    if (best_cut(candidate, collective, root, bytes)) table.push_back(candidate);
  }
  std::ranges::stable_sort(table, {}, &Candidate::weight);
  return table;
}

double Candidate::weight() const {
  constexpr double kPerLane = 0.02;
  return prediction.seconds() * (1 + kPerLane * (terms.lanes * terms.copies - 1));
}

Result<Choice> Tuner::choose(Collective collective, Rank root, uint64_t bytes) const {
  Word& word = chosen_[static_cast<size_t>(collective) * kClasses + class_of(bytes)];
  // Relaxed: the word is all there is to a choice, and every thread comes to the same one.
  if (const uint64_t chosen = word.load(std::memory_order_relaxed); chosen != 0) [[likely]]
    return unpack(chosen);
  return choose_anew(collective, root, bytes, word);
}

Result<Choice> Tuner::choose_anew(Collective collective, Rank root, uint64_t bytes, Word& word) const {
  const uint32_t size_class = class_of(bytes);
  const std::vector<Candidate> table = candidates(collective, root, size_of_class(size_class));
  if (table.empty())
    return invalid_usage("TUTTI_ALGO leaves no algorithm for {} of {} ranks; it can be {}", name_of(collective),
                         static_cast<uint32_t>(facts_.nranks), names_for(collective));
  const Candidate& best = best_of(table);
  const Choice choice{best.algorithm, best.lanes, best.tile_bytes, !allowed(collective).empty() && table.size() == 1};
  // The one that makes it tells of it.
  if (word.exchange(pack(choice), std::memory_order_relaxed) == 0 && self_ == 0 &&
      log_enabled(LogLevel::info, Subsystem::tune))
    log_table(collective, size_class, table, choice);
  return choice;
}

void Tuner::log_table(Collective collective, uint32_t size_class, const std::vector<Candidate>& table,
                      const Choice& choice) const {
  log(LogLevel::info, Subsystem::tune, static_cast<int>(self_), "{} of {} to {} bytes over {} ranks\n{}",
      name_of(collective), least_of_class(size_class), least_of_class(size_class + 1) - 1,
      static_cast<uint32_t>(facts_.nranks), to_text(table, choice));
}

std::string to_text(const std::vector<Candidate>& table, const Choice& choice) {
  // us: predicted; bound: by the way of the tiles, by the busiest rank's work, or by the cores that ranks share.
  std::string text = fmt::format("  {:<20} {:>5} {:>8} {:>10} {:>13} {:>12}  {}", "algorithm", "lanes", "tile",
                                 "hand-overs", "bytes sent", "us", "bound");
  for (const Candidate& c : table) {
    const CostTerms& t = c.terms;
    double waits = 0;
    for (const Work& stage : t.stages) waits = std::max(waits, stage.waits);
    const double handovers = t.first.waits + (c.cut.tiles - 1) * waits;
    const double sent = c.cut.tiles * c.cut.tile_bytes * t.copies * t.busiest.sent;
    const Prediction& p = c.prediction;
    text += fmt::format("\n  {:<20} {:>5} {:>8} {:>10.0f} {:>13.0f} {:>12.2f}  {:<5}{}{}", c.algorithm->name, c.lanes,
                        c.tile_bytes, handovers, sent, p.seconds() * 1e6,
                        p.seconds() == p.way_s    ? "way"
                        : p.seconds() == p.rank_s ? "rank"
                                                  : "cores",
                        c.many_peers ? "  too many links" : "", c.algorithm == choice.algorithm ? "  <- chosen" : "");
  }
  return text;
}

}  // namespace tutti
