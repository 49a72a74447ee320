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

  ClockAlgebra(std::span<const Plan> plans, const Contract& contract)
      : contract_(contract), lanes_(ValueMachine<ClockAlgebra>::lane_count(plans)), clocks_(lanes_) {
    for (std::vector<uint32_t>& clock : clocks_) clock.assign(lanes_, 0);
    cells_.resize(plans.size());
    for (size_t r = 0; r < plans.size(); ++r) cells_[r].resize(contract.cell_count(plans[r].scratch_chunks));
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
      const uint32_t* other = snapshots_.data() + static_cast<size_t>(operand[0]) * lanes_;
      for (uint32_t l = 0; l < lanes_; ++l) clock[l] = std::max(clock[l], other[l]);
    }
    ++clock[place.lane_number];
    if (step.load_from != Buffer::none)
      TUTTI_TRY(access(place, *pending_load_, step.load_from, step.load, step.span, /*store=*/false));
    uint32_t snapshot = kLocal;
    if (step.send_count > 0) {
      snapshot = static_cast<uint32_t>(snapshots_.size() / lanes_);
      snapshots_.insert(snapshots_.end(), clock.begin(), clock.end());
    }
    for (uint32_t k = 0; k < step.span; ++k) result[k] = snapshot;
    return {};
  }

  Status store(const Place& place, const Plan& plan, const Step& step, const Value*) {
    return access(place, plan, step.store_to, step.store, step.span, /*store=*/true);
  }

  void send(const Place&, const Step& step, uint32_t, const Value* result, Value* message) const {
    for (uint32_t k = 0; k < step.span; ++k) message[k] = result[k];
  }

 private:
  static constexpr Value kLocal = UINT32_MAX;

  // The last access of each kind by one lane.
  struct Access {
    Place loaded{}, stored{};
    uint32_t load_time = 0, store_time = 0;  // 0: never
  };
  using Cell = std::vector<std::pair<uint32_t, Access>>;  // by lane number; two or three lanes at most in practice

  Status access(const Place& place, const Plan& plan, Buffer buffer, ChunkId first, uint32_t span, bool store) {
    for (uint32_t k = 0; k < span; ++k) {
      const uint32_t chunk = chunk_of_span(plan, buffer, first, k);
      Cell& cell = cells_[place.rank][contract_.cell(place.rank, buffer, chunk)];
      TUTTI_TRY(check_order(place, cell, chunk, store, buffer == Buffer::scratch));
      record(place, cell, store);
    }
    return {};
  }

  Status check_order(const Place& place, const Cell& cell, uint32_t chunk, bool store, bool scratch) const {
    for (const auto& [lane, past] : cell) {
      if (lane == place.lane_number) continue;
      const Place& other = past.store_time > 0 ? past.stored : past.loaded;
      // Scratch is the same memory for all tiles, and lanes are at different tiles: no order of one tile helps.
      if (scratch)
        return fail(tuttiInvalidUsage, "{}: it shares chunk {} of scratch with {}; lanes may not share scratch",
                    describe(place), chunk, describe(other));
      const uint32_t known = clocks_[place.lane_number][lane];
      const bool stores_race = past.store_time > known, load_races = store && past.load_time > known;
      if (!stores_race && !load_races) continue;
      return fail(tuttiInvalidUsage, "{}: it {} the memory of chunk {} which {} {}, and no message orders the two",
                  describe(place), store ? "writes" : "reads", chunk, describe(stores_race ? past.stored : past.loaded),
                  stores_race ? "writes" : "reads");
    }
    return {};
  }

  void record(const Place& place, Cell& cell, bool store) {
    auto mine = std::ranges::find(cell, place.lane_number, &Cell::value_type::first);
    if (mine == cell.end()) mine = cell.insert(cell.end(), {place.lane_number, {}});
    Access& access = mine->second;
    (store ? access.stored : access.loaded) = place;
    (store ? access.store_time : access.load_time) = clocks_[place.lane_number][place.lane_number];
  }

  const Contract& contract_;
  const uint32_t lanes_;
  std::vector<std::vector<uint32_t>> clocks_;
  std::vector<uint32_t> snapshots_;
  std::vector<std::vector<Cell>> cells_;
  const Plan* pending_load_ = nullptr;
};

}  // namespace

Status check_races(std::span<const Plan> plans, const Contract& contract) {
  ClockAlgebra algebra(plans, contract);
  return ValueMachine<ClockAlgebra>(plans, contract, algebra).run();
}

}  // namespace tutti
