#include "tests/engine/ensemble.h"

#include <algorithm>

namespace tutti {

std::string_view name_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::mapped:
      return "mapped";
    case LinkKind::put:
      return "put";
    case LinkKind::mixed:
      return "mixed";
    case LinkKind::shared:
      return "shared";
  }
  return "?";
}

std::string describe(const EnsembleOptions& o) {
  return fmt::format("{} ranks, {} links of depth {}, latency {} to {} ns, {} bytes/us, seed {}{}", uint32_t{o.nranks},
                     name_of(o.links), o.network.queue_depth, o.network.latency_min, o.network.latency_max,
                     o.network.bytes_per_us, o.seed, o.faults.empty() ? "" : ", with faults");
}

Ensemble::Ensemble(EnsembleOptions options) : options_(std::move(options)), rng_(options_.seed) {
  std::vector<bool> mapped;
  if (options_.links != LinkKind::put) mapped.push_back(true);
  if (options_.links == LinkKind::put || options_.links == LinkKind::mixed) mapped.push_back(false);
  const std::vector<std::vector<std::byte>> addresses(options_.nranks, {std::byte{1}});
  std::vector<std::string> descriptions;
  for (uint32_t r = 0; r < options_.nranks; ++r) descriptions.push_back(fmt::format("rank {}", r));
  for (const bool is_mapped : mapped) {
    SimOptions network = options_.network;
    network.seed = rng_.next();
    network.nranks = options_.nranks;
    network.mapped = is_mapped;
    network.shares_memory = options_.links == LinkKind::shared;
    // Mapped links have two rooms at least (transport.h).
    if (is_mapped) network.queue_depth = std::max(network.queue_depth, 2u);
    networks_.push_back(std::make_unique<SimNetwork>(network));
    transports_.emplace_back();
    for (uint32_t r = 0; r < options_.nranks; ++r) {
      std::unique_ptr<Transport> transport = networks_.back()->make_transport(Rank{r});
      if (const auto faults = options_.faults.find(r); faults != options_.faults.end())
        transport = make_faulty_transport(std::move(transport), faults->second);
      // Neither the simulator nor its decorator refuses addresses.
      (void)transport->set_peers(addresses, descriptions);
      transports_.back().push_back(std::move(transport));
    }
  }
  for (uint32_t r = 0; r < options_.nranks; ++r)
    links_.push_back(std::make_unique<RankLinks>([this, r](Rank peer) -> Transport& {
      const bool other_node = transports_.size() == 2 && (peer + r) % 2 == 1;
      return *transports_[other_node ? 1 : 0][r];
    }));
}

Ensemble::~Ensemble() {
  players_.clear();
  links_.clear();
}

Result<Ensemble::Player*> Ensemble::player(const Algorithm& algorithm, const Shape& shape, Rank rank) {
  Player& player = players_[{&algorithm, shape.root, shape.lanes, rank}];
  if (player.execution) return &player;
  const Plan plan = algorithm.plan(shape, rank);
  for (const Lane& lane : plan.lanes)
    for (Cursor cursor; !at_end(lane, cursor); advance(lane, cursor)) ++player.steps;
  TUTTI_TRY_ASSIGN(player.execution, Execution::create(plan, shape.collective, shape.nranks, links(rank)));
  return &player;
}

Nanoseconds Ensemble::now() const {
  Nanoseconds latest = 0;
  for (const auto& network : networks_) latest = std::max(latest, network->clock().now());
  return latest;
}

void Ensemble::drive(std::span<Part> parts, Nanoseconds limit, const std::function<void(Part&)>& on_finished) {
  const Nanoseconds end = now() + limit;
  const auto end_rest = [&](std::string_view why) {
    for (Part& part : parts) {
      if (part.ended()) continue;
      std::string waits;
      for (const Execution::Wait& wait : part.execution->waits())
        waits += fmt::format(" {} rank {}", wait.receiving ? "from" : "to", uint32_t{wait.peer});
      part.status = fail(tuttiTimeout, "{}; rank {} waits{}", why, uint32_t{part.rank}, waits);
    }
  };
  // Faults withhold what is there for a few polls at a time.
  constexpr int kIdleRoundsMax = 10'000;
  for (int idle_rounds = 0; idle_rounds < kIdleRoundsMax; ++idle_rounds) {
    bool skipped = false;
    const bool moved = poll_some(parts, skipped, on_finished);
    if (std::ranges::all_of(parts, &Part::ended)) return;
    if (now() > end) return end_rest("the bound on virtual time has passed");
    const bool must = !moved && !skipped;
    const uint64_t number = rng_.below(4);
    const bool happened = let_events_happen(must ? 1 + number : number);
    if (must && !happened && at_rest(parts)) return end_rest("nothing will ever move");
    if (moved || happened) idle_rounds = 0;
  }
  end_rest("a transport promises news for ever");
}

// Each unfinished part once, from a drawn one on, now and then leaving one out as if its thread had no core.
bool Ensemble::poll_some(std::span<Part> parts, bool& skipped, const std::function<void(Part&)>& on_finished) {
  bool moved = false;
  const size_t first = rng_.below(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    Part& part = parts[(first + i) % parts.size()];
    if (part.ended()) continue;
    if (rng_.below(8) == 0) {
      skipped = true;
      continue;
    }
    for (auto& network : transports_)
      if (Status status = network[part.rank]->progress(); !status.ok()) part.status = status;
    const Result<Progress> progress = part.execution->poll();
    if (!progress.ok())
      part.status = progress.status();
    else if (progress.value() == Progress::finished) {
      part.finished = true;
      on_finished(part);
    }
    moved |= !progress.ok() || progress.value() != Progress::blocked;
  }
  return moved;
}

bool Ensemble::let_events_happen(uint64_t number) {
  bool happened = false;
  for (; number > 0; --number)
    for (const auto& network : networks_) happened |= network->advance_to_next_event();
  return happened;
}

// No rank that still has something to do would be woken if all slept now.
bool Ensemble::at_rest(std::span<const Part> parts) {
  bool quiet = true;
  std::vector<pollfd> descriptors;
  for (const Part& part : parts) {
    if (part.ended()) continue;
    for (auto& network : transports_) {
      quiet &= network[part.rank]->prepare_wait(descriptors);
      network[part.rank]->finish_wait();
    }
  }
  return quiet;
}

}  // namespace tutti
