// ValueMachine: runs the plans of all ranks together, in one thread, over values of any algebra.
//
// It is the network: FIFOs of bounded depth, lanes that wait for them, and a queue of lanes that can go on (no polling:
// the cost is O(steps + operands + chunks of spans)). What a value is, what memory holds and what a fold does, the
// Algebra says:
//
//   using Value = ...;                                                   what one chunk of a message carries
//   Status load(place, plan, step, Value* values)                        step.span values of step.load_from
//   Status fold(place, step, span<const Value* const> operands, Value* result)
//   Status store(place, plan, step, const Value* result)
//   void send(place, step, fifo, const Value* result, Value* message)    what of the result arrives over that FIFO
//
// A step waits until all its messages are there, takes them all, folds, stores, and then sends to its receivers in slot
// order, each as soon as there is room. A run that ends at depth d thus proves two kinds of engine free of deadlock:
// one that holds operands or result itself while it waits, at depth d, and one that takes, folds and sends at once, at
// depth d + 1 (docs/plan-ir.md has the argument).
//
// Checked on the way, whatever the algebra: indices and forbidden buffers (check_step), one producer and one consumer
// lane per FIFO, equal sizes of all operands of a step and of both ends of a message, no deadlock, no message left
// over.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "base/status.h"
#include "plan/check.h"
#include "plan/contract.h"
#include "plan/fifo_table.h"
#include "plan/machine.h"

namespace tutti {

// Who performs a step.
struct Place {
  Rank rank;
  LaneId lane;
  uint32_t lane_number = 0;  // over all ranks
  Cursor cursor;
};
inline std::string describe(const Place& place) { return describe(place.rank, place.lane, place.cursor); }

template <class Algebra>
class ValueMachine {
 public:
  using Value = typename Algebra::Value;

  // Plans that passed check_plan. All references must outlive the machine.
  ValueMachine(std::span<const Plan> plans, const Contract& contract, Algebra& algebra, uint32_t fifo_depth = 1);

  // Every lane runs its plan `tiles` times. Call once.
  Status run(uint32_t tiles = 1);

  static uint32_t lane_count(std::span<const Plan> plans) {
    size_t lanes = 0;
    for (const Plan& plan : plans) lanes += plan.lanes.size();
    return static_cast<uint32_t>(lanes);
  }

  // The StepMachine concept, for the lane that is current.
  bool try_step(LaneId lane_id, const Lane& lane, const Step& step);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct MessageSize {
    uint32_t first_key = 0, last_key = 0, span = 0;
    bool operator==(const MessageSize&) const = default;
  };
  struct Message {
    uint32_t next = kNone;
    uint32_t spilled = kNone;  // index into spills_ when span > 1
    MessageSize size;
    Value value{};
  };
  struct Fifo {
    uint32_t head = kNone, tail = kNone, count = 0;
    uint32_t producer = kNone, consumer = kNone;  // lane numbers, by first use
    bool producer_waits = false, consumer_waits = false;
  };
  struct LaneState {
    Place place;
    uint32_t first_slot = 0;
    uint32_t tiles_left = 1;
    uint32_t arrived = 0, sent = 0;  // of the step at the cursor
    bool folded = false;
    MessageSize size;
    std::vector<Value> result;
  };

  void wake(bool& waits, uint32_t lane) {
    if (!waits) return;
    waits = false;
    ready_.push_back(lane);
  }
  const Value* values(const Message& m) const { return m.size.span == 1 ? &m.value : spills_[m.spilled].data(); }
  uint32_t recv_fifo(const LaneState& s, const Lane& lane, const Step& step, uint32_t k) const {
    return table_.slot(s.first_slot, slot_after(lane, step.recv_first, k)).recv;
  }
  uint32_t send_fifo(const LaneState& s, const Lane& lane, const Step& step, uint32_t k) const {
    return table_.slot(s.first_slot, slot_after(lane, step.send_first, k)).send;
  }

  bool all_arrived(LaneState& s, const Lane& lane, const Step& step);
  Status fold_step(LaneState& s, const Lane& lane, const Step& step);
  MessageSize size_of(const LaneState& s, const Step& step, Buffer buffer, ChunkId first) const;
  Status check_sizes(const LaneState& s, const Lane& lane, const Step& step) const;
  void push(LaneState& s, const Step& step, uint32_t fifo_id);
  void pop(uint32_t fifo_id);
  Status claim_end(uint32_t& end, const LaneState& s, uint32_t fifo_id, std::string_view does);
  Status end_state() const;
  Status deadlock(const LaneState& s) const;
  std::string name(uint32_t fifo_id) const {
    const FifoTable::Name& n = table_.name(fifo_id);
    return fmt::format("the FIFO from rank {} to rank {} on channel {}", static_cast<uint32_t>(n.source),
                       static_cast<uint32_t>(n.destination), static_cast<uint16_t>(n.channel));
  }

  std::span<const Plan> plans_;
  const Contract& contract_;
  Algebra& algebra_;
  const uint32_t depth_;
  FifoTable table_;
  std::vector<Fifo> fifos_;
  std::vector<LaneState> lanes_;
  std::vector<uint32_t> first_lane_;  // of each rank
  std::deque<uint32_t> ready_;
  std::vector<Message> messages_;
  std::vector<std::vector<Value>> spills_;
  uint32_t free_messages_ = kNone;
  std::vector<uint32_t> free_spills_;
  std::vector<const Value*> operands_;
  std::vector<Value> local_;
  LaneState* current_ = nullptr;
  Status status_;
};

template <class A>
ValueMachine<A>::ValueMachine(std::span<const Plan> plans, const Contract& contract, A& algebra, uint32_t fifo_depth)
    : plans_(plans), contract_(contract), algebra_(algebra), depth_(fifo_depth), table_(plans), fifos_(table_.size()) {
  uint32_t first_slot = 0;
  for (uint32_t r = 0; r < plans.size(); ++r) {
    first_lane_.push_back(static_cast<uint32_t>(lanes_.size()));
    for (uint16_t l = 0; l < plans[r].lanes.size(); ++l) {
      LaneState s;
      s.place = {Rank{r}, LaneId{l}, static_cast<uint32_t>(lanes_.size()), {}};
      s.first_slot = first_slot;
      first_slot += static_cast<uint32_t>(plans[r].lanes[l].peers.size());
      ready_.push_back(s.place.lane_number);
      lanes_.push_back(std::move(s));
    }
  }
}

template <class A>
Status ValueMachine<A>::run(uint32_t tiles) {
  for (LaneState& s : lanes_) s.tiles_left = tiles;
  while (!ready_.empty()) {
    current_ = &lanes_[ready_.front()];
    ready_.pop_front();
    LaneState& s = *current_;
    while (s.tiles_left > 0 &&
           run_lane(plans_[s.place.rank], s.place.lane, s.place.cursor, *this) == Progress::finished) {
      s.place.cursor = {};
      --s.tiles_left;
    }
    if (!status_.ok()) return status_;
  }
  return end_state();
}

template <class A>
bool ValueMachine<A>::try_step(LaneId, const Lane& lane, const Step& step) {
  LaneState& s = *current_;
  if (!s.folded) {
    if (!all_arrived(s, lane, step)) return false;
    status_ = fold_step(s, lane, step);
    if (!status_.ok()) return false;
    s.folded = true;
    s.sent = 0;
  }
  for (; s.sent < step.send_count; ++s.sent) {
    const uint32_t id = send_fifo(s, lane, step, s.sent);
    Fifo& fifo = fifos_[id];
    if (fifo.producer != s.place.lane_number) {
      status_ = claim_end(fifo.producer, s, id, "sends to");
      if (!status_.ok()) return false;
    }
    if (fifo.count >= depth_) {
      fifo.producer_waits = true;
      return false;
    }
    push(s, step, id);
  }
  s.folded = false;
  s.arrived = 0;
  return true;
}

template <class A>
bool ValueMachine<A>::all_arrived(LaneState& s, const Lane& lane, const Step& step) {
  // Nobody else takes from these FIFOs, so what was there once is still there.
  for (; s.arrived < step.recv_count; ++s.arrived) {
    const uint32_t id = recv_fifo(s, lane, step, s.arrived);
    Fifo& fifo = fifos_[id];
    if (fifo.consumer != s.place.lane_number) {
      status_ = claim_end(fifo.consumer, s, id, "receives from");
      if (!status_.ok()) return false;
    }
    if (fifo.count > 0) continue;
    fifo.consumer_waits = true;
    return false;
  }
  return true;
}

template <class A>
Status ValueMachine<A>::claim_end(uint32_t& end, const LaneState& s, uint32_t fifo_id, std::string_view does) {
  if (end == kNone) {
    end = s.place.lane_number;
    return {};
  }
  return fail(tuttiInvalidUsage, "{} {} {}, as lane {} of the same rank does; a FIFO has one lane at each end",
              describe(s.place), does, name(fifo_id), static_cast<uint16_t>(lanes_[end].place.lane));
}

template <class A>
Status ValueMachine<A>::fold_step(LaneState& s, const Lane& lane, const Step& step) {
  const Plan& plan = plans_[s.place.rank];
  TUTTI_TRY(check_step(plan, contract_, s.place.rank, s.place.lane, s.place.cursor, step));
  s.size =
      step.sized_by_load() ? size_of(s, step, step.load_from, step.load) : size_of(s, step, step.store_to, step.store);
  TUTTI_TRY(check_sizes(s, lane, step));

  operands_.clear();
  for (uint32_t k = 0; k < step.recv_count; ++k)
    operands_.push_back(values(messages_[fifos_[recv_fifo(s, lane, step, k)].head]));
  if (step.load_from != Buffer::none) {
    if (local_.size() < step.span) local_.resize(step.span);
    TUTTI_TRY(algebra_.load(s.place, plan, step, local_.data()));
    operands_.insert(operands_.begin() + step.local_pos, local_.data());
  }
  if (s.result.size() < step.span) s.result.resize(step.span);
  TUTTI_TRY(algebra_.fold(s.place, step, operands_, s.result.data()));
  for (uint32_t k = 0; k < step.recv_count; ++k) pop(recv_fifo(s, lane, step, k));
  if (step.store_to != Buffer::none) TUTTI_TRY(algebra_.store(s.place, plan, step, s.result.data()));
  return {};
}

template <class A>
auto ValueMachine<A>::size_of(const LaneState& s, const Step& step, Buffer buffer, ChunkId first) const -> MessageSize {
  const Plan& plan = plans_[s.place.rank];
  const auto key = [&](uint32_t k) {
    return contract_.size_key(s.place.rank, buffer, chunk_of_span(plan, buffer, first, k));
  };
  const uint32_t first_key = key(0);
  return {first_key, step.span == 1 ? first_key : key(step.span - 1u), step.span};
}

template <class A>
Status ValueMachine<A>::check_sizes(const LaneState& s, const Lane& lane, const Step& step) const {
  for (uint32_t k = 0; k < step.recv_count; ++k) {
    const uint32_t id = recv_fifo(s, lane, step, k);
    const MessageSize& size = messages_[fifos_[id].head].size;
    if (size == s.size) continue;
    return fail(tuttiInvalidUsage,
                "{}: {} chunks as large as {}.. are expected over {}, and {} as large as {}.. arrive",
                describe(s.place), s.size.span, s.size.first_key, name(id), size.span, size.first_key);
  }
  if (step.load_from != Buffer::none && step.store_to != Buffer::none) {
    const MessageSize store = size_of(s, step, step.store_to, step.store);
    if (store != s.size)
      return fail(tuttiInvalidUsage, "{}: it stores a result as large as chunk {} where chunk {} has room",
                  describe(s.place), s.size.first_key, store.first_key);
  }
  return {};
}

template <class A>
void ValueMachine<A>::push(LaneState& s, const Step& step, uint32_t fifo_id) {
  uint32_t id = free_messages_;
  if (id != kNone) {
    free_messages_ = messages_[id].next;
  } else {
    id = static_cast<uint32_t>(messages_.size());
    messages_.emplace_back();
  }
  Message& m = messages_[id];
  m.next = kNone;
  m.size = s.size;
  Value* into = &m.value;
  if (step.span > 1) {
    if (free_spills_.empty()) {
      free_spills_.push_back(static_cast<uint32_t>(spills_.size()));
      spills_.emplace_back();
    }
    m.spilled = free_spills_.back();
    free_spills_.pop_back();
    spills_[m.spilled].resize(step.span);
    into = spills_[m.spilled].data();
  }
  algebra_.send(s.place, step, fifo_id, s.result.data(), into);

  Fifo& fifo = fifos_[fifo_id];
  (fifo.count == 0 ? fifo.head : messages_[fifo.tail].next) = id;
  fifo.tail = id;
  ++fifo.count;
  wake(fifo.consumer_waits, fifo.consumer);
}

template <class A>
void ValueMachine<A>::pop(uint32_t fifo_id) {
  Fifo& fifo = fifos_[fifo_id];
  const uint32_t id = fifo.head;
  Message& m = messages_[id];
  if (m.size.span > 1) free_spills_.push_back(m.spilled);
  fifo.head = m.next;
  --fifo.count;
  m.next = free_messages_;
  free_messages_ = id;
  wake(fifo.producer_waits, fifo.producer);
}

template <class A>
Status ValueMachine<A>::end_state() const {
  for (const LaneState& s : lanes_)
    if (s.tiles_left > 0) return deadlock(s);
  for (uint32_t id = 0; id < fifos_.size(); ++id)
    if (fifos_[id].count > 0)
      return fail(tuttiInvalidUsage, "{} messages are left over in {}", fifos_[id].count, name(id));
  return {};
}

template <class A>
Status ValueMachine<A>::deadlock(const LaneState& s) const {
  const Lane& lane = plans_[s.place.rank].lanes[s.place.lane];
  const Step step = decode(plans_[s.place.rank], lane, s.place.cursor);
  uint32_t stuck = 0;
  for (const LaneState& other : lanes_) stuck += other.tiles_left > 0 ? 1 : 0;
  const std::string waits_for = s.folded ? "room in " + name(send_fifo(s, lane, step, s.sent))
                                         : "a message from " + name(recv_fifo(s, lane, step, s.arrived));
  return fail(tuttiInvalidUsage, "deadlock with FIFOs of depth {}: {} waits for {}; {} lanes are stuck", depth_,
              describe(s.place), waits_for, stuck);
}

}  // namespace tutti
