#include "engine/execution.h"

#include "engine/byte_machine.h"
#include "engine/lane_state.h"

namespace tutti {

Execution::Execution(Plan plan, Collective collective, Rank nranks)
    : plan_(std::move(plan)),
      collective_(collective),
      grid_(grid_of(collective, nranks, plan_.chunks)),
      nranks_(nranks),
      contributes_once_(contributes_once(plan_)) {}

Execution::~Execution() = default;

Result<std::unique_ptr<Execution>> Execution::create(Plan plan, Collective collective, Rank nranks,
                                                     LinkSource& links) {
  std::unique_ptr<Execution> execution(new Execution(std::move(plan), collective, nranks));
  TUTTI_TRY(execution->open_links(links));
  return execution;
}

Status Execution::open_links(LinkSource& links) {
  lanes_.resize(plan_.lanes.size());
  for (size_t l = 0; l < lanes_.size(); ++l) {
    const Lane& lane = plan_.lanes[l];
    LaneState& state = lanes_[l];
    state.lane = &lane;
    state.sends.assign(lane.peers.size(), nullptr);
    state.recvs.assign(lane.peers.size(), nullptr);
    state.mapped_sends.assign(lane.peers.size(), 0);
    state.mapped_recvs.assign(lane.peers.size(), 0);
    for (Cursor cursor; !at_end(lane, cursor); advance(lane, cursor)) {
      const Step step = decode(plan_, lane, cursor);
      longest_span_ = std::max<uint32_t>(longest_span_, step.span);
      uint32_t put_operands = 0;  // one past the last: operands of mapped links leave a gap
      for (uint32_t i = 0; i < step.recv_count; ++i) {
        const PeerSlot slot = slot_after(lane, step.recv_first, i);
        if (!state.recvs[slot]) {
          TUTTI_TRY_ASSIGN(state.recvs[slot], links.recv_link(lane.peers[slot]));
        }
        state.mapped_recvs[slot] = state.recvs[slot]->mapped();
        if (!state.mapped_recvs[slot]) put_operands = i + 1;
      }
      for (uint32_t j = 0; j < step.send_count; ++j) {
        const PeerSlot slot = slot_after(lane, step.send_first, j);
        if (!state.sends[slot]) {
          TUTTI_TRY_ASSIGN(state.sends[slot], links.send_end(lane.peers[slot]));
        }
        // A result that put links send must lie somewhere; what is only loaded may still have to be scaled first.
        state.mapped_sends[slot] = state.sends[slot]->link->mapped();
        if (!state.mapped_sends[slot] && step.store_to == Buffer::none) state.stages_results = true;
      }
      state.staged_operands = std::max(state.staged_operands, put_operands);
    }
  }
  return {};
}

void Execution::start(const Binding& binding) {
  binding_ = binding;
  ++bindings_;
  const uint64_t element_bytes = size_of(binding.fold.type);
  tile_count_ = std::max<uint64_t>(binding.tile_bytes / longest_span_ / element_bytes, 1);
  const uint64_t longest = std::max(binding.in_layout.longest_chunk(), binding.out_layout.longest_chunk());
  tile_count_ = std::min(tile_count_, std::max<uint64_t>(longest, 1));
  tiles_ = std::max<uint64_t>((longest + tile_count_ - 1) / tile_count_, 1);
  message_bytes_ = tile_count_ * longest_span_ * element_bytes;
  const auto grow = [](std::vector<std::byte>& memory, uint64_t bytes) {
    if (memory.size() < bytes) memory.resize(bytes);
  };
  grow(scratch_, plan_.scratch_chunks * tile_count_ * element_bytes);
  for (LaneState& lane : lanes_) {
    grow(lane.operand_memory, lane.staged_operands * message_bytes_);
    if (lane.stages_results) grow(lane.result_memory, LaneState::kResultBuffers * message_bytes_);
    lane.known = 0;
  }
  rewind();
}

void Execution::start_again(const std::byte* in, std::byte* out, const Stamp& stamp) {
  binding_.in = in;
  binding_.out = out;
  binding_.stamp = stamp;
  rewind();
}

void Execution::rewind() {
  mismatch_.reset();
  shortcuts_ = takes_shortcuts();
  for (LaneState& lane : lanes_) {
    lane.cursor = {};
    lane.step.reset();
    lane.tile = 0;
    lane.step_number = 0;
    lane.finished = false;
    lane.stage = LaneState::Stage::fresh;
    lane.ahead = {};
    if (shortcuts_) ByteMachine(*this, lane).grant_ahead();
  }
}

Result<Progress> Execution::poll() {
  bool moved = false, all_finished = true;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    LaneState& state = lanes_[l];
    if (state.finished) continue;
    ByteMachine machine(*this, state);
    for (;;) {
      const Progress progress = run_lane(plan_, LaneId{static_cast<uint16_t>(l)}, state.cursor, state.step, machine);
      if (!machine.status().ok()) return machine.status();
      moved |= progress != Progress::blocked;
      if (progress != Progress::finished) break;
      state.cursor = {};
      if (++state.tile < tiles_) continue;
      state.finished = true;
      break;
    }
    all_finished &= state.finished;
  }
  if (all_finished && guard_.clear()) return Progress::finished;
  return moved ? Progress::moved : Progress::blocked;
}

std::vector<Execution::Wait> Execution::waits() const {
  std::vector<Wait> waits;
  const auto add = [&](Rank peer, bool receiving) {
    const Wait wait{peer, receiving};
    if (std::find(waits.begin(), waits.end(), wait) == waits.end()) waits.push_back(wait);
  };
  for (const LaneState& state : lanes_) {
    if (state.finished || state.stage == LaneState::Stage::fresh) continue;
    const Step step = decode(plan_, *state.lane, state.cursor);
    if (state.stage == LaneState::Stage::receiving) {
      for (uint32_t i = 0; i < step.recv_count; ++i)
        if (!state.operands[i]) add(state.lane->peers[slot_after(*state.lane, step.recv_first, i)].rank, true);
    } else {
      for (uint32_t j = state.sent; j < step.send_count; ++j)
        if (state.stage == LaneState::Stage::sending || (!state.claims[j] && !state.lent[j]))
          add(state.lane->peers[slot_after(*state.lane, step.send_first, j)].rank, false);
    }
  }
  if (waits.empty()) guard_.for_each_end([&](const SendEnd* end) { add(end->peer, false); });
  return waits;
}

}  // namespace tutti
