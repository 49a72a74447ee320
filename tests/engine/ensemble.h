// Ensemble: all ranks of one communicator in one thread, over simulated networks.
//
// It plays the part of the communicators and their wait loops: keeps links and executions between operations, polls the
// ranks in drawn order, lets drawn numbers of events happen in between, and asks prepare_wait() before it says that
// nothing will ever move again. Deterministic for given options and calls.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "base/rng.h"
#include "engine/execution.h"
#include "tests/engine/rank_links.h"
#include "transports/faulty/faulty.h"
#include "transports/sim/sim.h"

namespace tutti {

// mixed: ranks of equal parity share a node and have mapped links, the others put links. shared: mapped links that lend
// and grant whatever they are asked to, half of the times.
enum class LinkKind : uint8_t { mapped, put, mixed, shared };
std::string_view name_of(LinkKind kind);

struct EnsembleOptions {
  Rank nranks{2};
  LinkKind links = LinkKind::mapped;
  uint64_t seed = 1;
  SimOptions network;                       // its seed, nranks and mapped are overwritten
  std::map<uint32_t, FaultOptions> faults;  // by rank
};
std::string describe(const EnsembleOptions& options);

class Ensemble {
 public:
  explicit Ensemble(EnsembleOptions options);
  ~Ensemble();

  const EnsembleOptions& options() const { return options_; }
  Rank size() const { return options_.nranks; }
  Rng& rng() { return rng_; }
  RankLinks& links(Rank rank) { return *links_[rank]; }

  // The rank's execution of the plan, made when first asked for.
  struct Player {
    std::unique_ptr<Execution> execution;
    uint64_t steps = 0;  // of the plan, over its lanes
  };
  Result<Player*> player(const Algorithm& algorithm, const Shape& shape, Rank rank);

  // One execution under way.
  struct Part {
    Rank rank;
    Execution* execution = nullptr;
    Status status;  // its error, or tuttiTimeout where it never finished
    bool finished = false;
    bool ended() const { return finished || !status.ok(); }
  };
  // Polls started executions until each has finished or failed, or nothing can move any more, or `limit` of virtual
  // time has passed. on_finished(part) is called as soon as one has: its memory is the caller's again.
  void drive(std::span<Part> parts, Nanoseconds limit, const std::function<void(Part&)>& on_finished);

 private:
  bool poll_some(std::span<Part> parts, bool& skipped, const std::function<void(Part&)>& on_finished);
  bool let_events_happen(uint64_t number);
  bool at_rest(std::span<const Part> parts);
  Nanoseconds now() const;

  EnsembleOptions options_;
  Rng rng_;
  std::vector<std::unique_ptr<SimNetwork>> networks_;                // mapped, put, or both
  std::vector<std::vector<std::unique_ptr<Transport>>> transports_;  // by network and rank
  std::vector<std::unique_ptr<RankLinks>> links_;
  std::map<std::tuple<const Algorithm*, uint32_t, uint32_t, uint32_t>, Player> players_;
};

}  // namespace tutti
