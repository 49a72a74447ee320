#include "plan/race.h"

#include <algorithm>
#include <map>
#include <vector>

#include "plan/value_machine.h"

namespace tutti {
namespace {

// The clock of a lane counts its steps; what it knows of other lanes comes with their messages. A message carries the
// number of a snapshot of its sender's clock. Room in a FIFO orders nothing: a deeper FIFO would not have waited.
class ClockAlgebra {
 public:
  using Value = uint32_t;

  ClockAlgebra(std::span<const Plan> plans, const Contract& contract, Touching touching)
      : contract_(contract), lanes_(ValueMachine<ClockAlgebra>::lane_count(plans)), clocks_(lanes_) {
    for (std::vector<uint32_t>& clock : clocks_) clock.assign(lanes_, 0);
    cells_.resize(plans.size());
    for (size_t r = 0; r < plans.size(); ++r) cells_[r].resize(contract.cell_count(plans[r].scratch_chunks));
    for (const Plan& plan : plans)
      takes_shortcuts_.push_back(touching == Touching::shortcuts &&
                                 (!contract.in_place() || !contract.reduces() || contributes_once(plan)));
  }

  Status load(const Place&, const Plan& plan, const Step& step, Value* values) {
    // The step's messages order its load; they are known in fold(), so accesses are recorded there.
    pending_load_ = &plan;
    for (uint32_t k = 0; k < step.span; ++k) values[k] = kLocal;
    return {};
  }

  Status fold(const Place& place, const Step& step, std::span<const Value* const> operands, Value* result) {
    std::vector<uint32_t>& clock = clocks_[place.lane_number];
    for (const Value* operand : operands) {
      if (operand[0] == kLocal) continue;
      const uint32_t* other = snapshot(operand[0]);
      for (uint32_t l = 0; l < lanes_; ++l) clock[l] = std::max(clock[l], other[l]);
    }
    ++clock[place.lane_number];
    const Actor self{place, clock.data()};
    for (const Value* operand : operands) {
      if (operand[0] == kLocal || !sent_[operand[0]].lent) continue;
      TUTTI_TRY(touch(self, sent_[operand[0]].place.rank, sent_[operand[0]].cell, Kind::load));
    }
    const bool lends = step.recv_count == 0 && step.send_count > 0 && step.load_from == Buffer::in && step.span == 1 &&
                       takes_shortcuts_[place.rank];
    if (step.load_from != Buffer::none && !lends)
      TUTTI_TRY(access(self, place.rank, *pending_load_, step.load_from, step.load, step.span, Kind::load));
    last_received_ = operands.empty() ? kLocal : operands.back()[0];
    uint32_t number = kLocal;
    if (step.send_count > 0) {
      number = static_cast<uint32_t>(sent_.size());
      snapshots_.insert(snapshots_.end(), clock.begin(), clock.end());
      sent_.push_back({place, lends, lends ? contract_.cell(place.rank, Buffer::in, step.load) : 0});
    }
    for (uint32_t k = 0; k < step.span; ++k) result[k] = number;
    return {};
  }

  Status store(const Place& place, const Plan& plan, const Step& step, const Value*) {
    const Actor self{place, clocks_[place.lane_number].data()};
    if (takes_shortcuts_[place.rank] && step.store_to == Buffer::out && step.span == 1) {
      const uint32_t cell = contract_.cell(place.rank, Buffer::out, step.store);
      // Stored where it was loaded from: nothing is.
      if (step.recv_count == 0 && step.load_from != Buffer::scratch &&
          contract_.cell(place.rank, step.load_from, step.load) == cell)
        return {};
      if (step.recv_count == 1 && step.load_from == Buffer::none)
        return touch({sent_[last_received_].place, snapshot(last_received_)}, place.rank, cell, Kind::store);
    }
    return access(self, place.rank, plan, step.store_to, step.store, step.span, Kind::store);
  }

  void send(const Place&, const Step& step, uint32_t, const Value* result, Value* message) const {
    for (uint32_t k = 0; k < step.span; ++k) message[k] = result[k];
  }

 private:
  static constexpr Value kLocal = UINT32_MAX;
  enum class Kind : uint8_t { load, store };

  // A lane at one of its steps, and what it knows of others then.
  struct Actor {
    Place place;
    const uint32_t* clock;
  };
  // The last access of each kind by one lane.
  struct Access {
    Place loaded{}, stored{};
    uint32_t load_time = 0, store_time = 0;  // 0: never
  };
  using Cell = std::vector<std::pair<uint32_t, Access>>;  // by lane number; two or three lanes at most in practice
  // A step that sent.
  struct Sent {
    Place place;
    bool lent;
    uint32_t cell;  // lent: of its rank
  };

  const uint32_t* snapshot(uint32_t number) const { return snapshots_.data() + static_cast<size_t>(number) * lanes_; }

  Status access(const Actor& actor, Rank rank, const Plan& plan, Buffer buffer, ChunkId first, uint32_t span,
                Kind kind) {
    for (uint32_t k = 0; k < span; ++k) {
      const uint32_t cell = contract_.cell(rank, buffer, chunk_of_span(plan, buffer, first, k));
      if (buffer == Buffer::scratch) TUTTI_TRY(check_own(actor, cells_[rank][cell]));
      TUTTI_TRY(touch(actor, rank, cell, kind));
    }
    return {};
  }

  // Scratch is the same memory for all tiles, and lanes are at different tiles: no order of one tile helps.
  Status check_own(const Actor& actor, const Cell& cell) const {
    for (const auto& [lane, past] : cell) {
      if (lane == actor.place.lane_number) continue;
      return fail(tuttiInvalidUsage, "{}: it shares a chunk of scratch with {}; lanes may not share scratch",
                  describe(actor.place), describe(past.store_time > 0 ? past.stored : past.loaded));
    }
    return {};
  }

  Status touch(const Actor& actor, Rank rank, uint32_t cell_number, Kind kind) {
    Cell& cell = cells_[rank][cell_number];
    const bool store = kind == Kind::store;
    for (const auto& [lane, past] : cell) {
      if (lane == actor.place.lane_number) continue;
      const uint32_t known = actor.clock[lane];
      const bool stores_race = past.store_time > known, load_races = store && past.load_time > known;
      if (!stores_race && !load_races) continue;
      return fail(tuttiInvalidUsage, "{}: it {} memory (cell {} of rank {}) which {} {}, and no message orders the two",
                  describe(actor.place), store ? "writes" : "reads", cell_number, static_cast<uint32_t>(rank),
                  describe(stores_race ? past.stored : past.loaded), stores_race ? "writes" : "reads");
    }
    record(actor, cell, store);
    return {};
  }

  void record(const Actor& actor, Cell& cell, bool store) {
    auto mine = std::ranges::find(cell, actor.place.lane_number, &Cell::value_type::first);
    if (mine == cell.end()) mine = cell.insert(cell.end(), {actor.place.lane_number, {}});
    Access& access = mine->second;
    (store ? access.stored : access.loaded) = actor.place;
    (store ? access.store_time : access.load_time) = actor.clock[actor.place.lane_number];
  }

  const Contract& contract_;
  const uint32_t lanes_;
  std::vector<std::vector<uint32_t>> clocks_;
  std::vector<bool> takes_shortcuts_;  // by rank
  std::vector<uint32_t> snapshots_;    // clocks, by number of the sending step
  std::vector<Sent> sent_;
  std::vector<std::vector<Cell>> cells_;
  const Plan* pending_load_ = nullptr;
  uint32_t last_received_ = kLocal;
};

}  // namespace

Status check_races(std::span<const Plan> plans, const Contract& contract, Touching touching) {
  ClockAlgebra algebra(plans, contract, touching);
  return ValueMachine<ClockAlgebra>(plans, contract, algebra).run();
}

}  // namespace tutti
