#include "plan/cost.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "plan/check.h"
#include "plan/contract.h"
#include "plan/fifo_table.h"
#include "plan/value_machine.h"

namespace tutti {
namespace {

class TimeAlgebra {
 public:
  using Value = double;  // seconds at which the data is there

  TimeAlgebra(std::span<const Plan> plans, const CostModel& model, double tile_bytes)
      : model_(model),
        tile_bytes_(tile_bytes),
        lane_free_(ValueMachine<TimeAlgebra>::lane_count(plans), 0.0),
        work_(plans.size()) {
    const FifoTable table(plans);
    links_.reserve(table.size());
    for (uint32_t f = 0; f < table.size(); ++f)
      links_.push_back(model.link(table.name(f).source, table.name(f).destination));
  }

  // Memory is written by the same lane before, or by another one that a message came from since.
  Status load(const Place&, const Plan&, const Step& step, Value* values) const {
    std::fill_n(values, step.span, 0.0);
    return {};
  }
  Status fold(const Place& place, const Step& step, std::span<const Value* const> operands, Value* result) {
    double& free = lane_free_[place.lane_number];
    const double was_free = free;
    for (const Value* operand : operands) free = std::max(free, operand[0]);
    const double bytes = tile_bytes_ * step.span, folds = static_cast<double>(operands.size() - 1);
    free += model_.step_s + model_.receive_message_s * step.recv_count +
            bytes * (model_.receive_s_per_byte * step.recv_count + model_.gamma_s_per_byte * folds);
    if (step.store_to != Buffer::none) free += model_.store_s_per_byte * bytes;
    Work& work = work_[place.rank];
    work.steps += 1;
    if (std::ranges::any_of(operands, [&](const Value* operand) { return operand[0] > was_free; })) {
      work.waits += 1;
      work.awaited += step.span;
    }
    work.messages += step.recv_count;
    work.received += static_cast<double>(step.recv_count) * step.span;
    work.folded += folds * step.span;
    work.stored += step.store_to != Buffer::none ? step.span : 0;
    std::fill_n(result, step.span, free);
    seconds_ = std::max(seconds_, free);
    return {};
  }
  Status store(const Place&, const Plan&, const Step&, const Value*) const { return {}; }
  void send(const Place& place, const Step& step, uint32_t fifo, const Value* result, Value* message) {
    const LinkCost& link = links_[fifo];
    const double bytes = tile_bytes_ * step.span;
    double& link_free = link.resource == kSendingLane ? lane_free_[place.lane_number] : resource_free_[link.resource];
    link_free = std::max(link_free, result[0]) + link.message_s + link.beta_s_per_byte * bytes;
    if (link.resource == kSendingLane) seconds_ = std::max(seconds_, link_free);
    std::fill_n(message, step.span, link_free + link.alpha_s + model_.alpha_s_per_byte * bytes);
    work_[place.rank].messages += 1;
    work_[place.rank].sent += step.span;
    ++messages_;
  }

  Cost cost() && {
    const double most = std::ranges::max_element(work_, {}, &Work::sent)->sent;
    return {seconds_, most * tile_bytes_, messages_, std::move(work_)};
  }

 private:
  const CostModel& model_;
  const double tile_bytes_;
  std::vector<double> lane_free_;
  std::vector<Work> work_;       // by rank
  std::vector<LinkCost> links_;  // by FIFO
  std::unordered_map<uint32_t, double> resource_free_;
  double seconds_ = 0;
  uint64_t messages_ = 0;
};

}  // namespace

CostModel full_mesh(uint32_t nranks, double alpha_s, double beta_s_per_byte) {
  return {.link = [=](Rank source, Rank destination) -> LinkCost {
    return {alpha_s, beta_s_per_byte, source * nranks + destination};
  }};
}

CostModel one_port(double alpha_s, double beta_s_per_byte) {
  return {.link = [=](Rank source, Rank) -> LinkCost { return {alpha_s, beta_s_per_byte, source}; }};
}

CostModel busy_lanes(const Prices& prices) {
  return {.link = [=](Rank, Rank) -> LinkCost {
            return {prices.wait_s, prices.send_s_per_byte, kSendingLane, prices.message_s};
          },
          .gamma_s_per_byte = prices.fold_s_per_byte,
          .step_s = prices.step_s,
          .alpha_s_per_byte = prices.wait_s_per_byte,
          .receive_message_s = prices.message_s,
          .receive_s_per_byte = prices.receive_s_per_byte,
          .store_s_per_byte = prices.store_s_per_byte};
}

Result<Cost> estimate_cost(const Shape& shape, std::span<const Plan> plans, const CostModel& model, double chunk_bytes,
                           uint32_t tiles) {
  if (plans.empty() || tiles == 0 || !model.link)
    return invalid_argument("a cost needs plans, at least one tile and a link model");
  const Contract contract(shape, plans[0].chunks, /*in_place=*/false);
  if (plans.size() != contract.shape().nranks)
    return invalid_argument("{} plans were given for {} ranks", plans.size(),
                            static_cast<uint32_t>(contract.shape().nranks));
  for (uint32_t r = 0; r < plans.size(); ++r) TUTTI_TRY(check_plan(plans[r], contract, Rank{r}));
  // A few messages per FIFO let fast lanes run ahead, without one rank's whole pipeline piling up before the next runs.
  constexpr uint32_t kFifoDepth = 4;
  TimeAlgebra algebra(plans, model, chunk_bytes / tiles);
  TUTTI_TRY(ValueMachine<TimeAlgebra>(plans, contract, algebra, kFifoDepth).run(tiles));
  return std::move(algebra).cost();
}

}  // namespace tutti
