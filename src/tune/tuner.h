// Tuner: which algorithm, how many lanes, which tile for an operation.
//
// Predicts the time of every algorithm that applies and is allowed, over some numbers of lanes and sizes of tiles, and
// takes the least. It chooses from what all ranks know alike (Facts, the agreed configuration, the operation), with
// arithmetic that gives all the same, so all ranks choose alike without talking. TUTTI_ALGO, TUTTI_LANES and TUTTI_TILE
// force a choice.
//
// Sizes are taken in classes, four to a power of two, and the choice of a class is kept: asking again is a look-up.
// Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "algorithms/algorithm.h"
#include "base/config.h"
#include "tune/facts.h"
#include "tune/predict.h"

namespace tutti {

struct Choice {
  const Algorithm* algorithm = nullptr;
  uint32_t lanes = 1;
  uint64_t tile_bytes = 0;
  bool forced = false;  // TUTTI_ALGO left one algorithm
};

// One row of the table that a choice is made from: an algorithm at its best number of lanes and size of tile.
struct Candidate {
  const Algorithm* algorithm = nullptr;
  uint32_t lanes = 1;
  uint64_t tile_bytes = 0;
  CostTerms terms;
  Cut cut;
  Prediction prediction;
  bool many_peers = false;  // needs more links than an automatic choice opens
  // What is compared: predictions are off by some percent, so where several lanes are predicted to gain no more than
  // that, the fewer lanes, links and memory are preferred.
  double weight() const;
};

class Tuner {
 public:
  // `self`: for the log alone; rank 0 tells what was chosen.
  // Errors: TUTTI_ALGO names an algorithm that does not exist for the collective it names, or leaves none to it; a list
  // for all collectives must leave one to any of them.
  static Result<Tuner> create(const Config& config, const Facts& facts, Rank self = Rank{0});

  // bytes: of the wide buffer. Errors: TUTTI_ALGO leaves nothing for this collective and shape; lists what can be had.
  // About 10 ns, without allocating, when the size class has been asked for before; else some 10 us.
  Result<Choice> choose(Collective collective, Rank root, uint64_t bytes) const;

  // The table, best first: what choose() takes is the first without many_peers, or the first. Empty where nothing is
  // allowed.
  std::vector<Candidate> candidates(Collective collective, Rank root, uint64_t bytes) const;

 private:
  // A Choice in one word, so that threads exchange it whole; 0: not made yet.
  using Word = std::atomic<uint64_t>;

  Tuner(const Config& config, const Facts& facts, Rank self);
  const NameList& allowed(Collective collective) const;
  bool best_cut(Candidate& candidate, Collective collective, Rank root, uint64_t bytes) const;
  Result<Choice> choose_anew(Collective collective, Rank root, uint64_t bytes, Word& word) const;
  void log_table(Collective collective, uint32_t size_class, const std::vector<Candidate>& table,
                 const Choice& choice) const;

  AlgorithmFilter filter_;
  std::optional<uint32_t> lanes_;
  std::optional<uint64_t> tile_bytes_;
  Facts facts_;
  Rank self_;
  std::unique_ptr<Word[]> chosen_;  // by collective and size class
};

// The table as text: a line each, with what was predicted and why; `choice` is marked.
std::string to_text(const std::vector<Candidate>& table, const Choice& choice);

}  // namespace tutti
