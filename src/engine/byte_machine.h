// ByteMachine: the Machine (plan/machine.h) whose values are bytes in memory and messages on links. Private to the engine.
#pragma once

#include "engine/execution.h"
#include "engine/lane_state.h"

namespace tutti {

// A step goes through the stages of LaneState: receive all operands, claim room on mapped links, fold, hand over to put
// links. It may be left and taken up again at any stage but between claiming and folding.
class Execution::ByteMachine {
 public:
  ByteMachine(Execution& execution, LaneState& lane) : x_(execution), lane_(lane) {}
  bool try_step(LaneId lane_id, const Lane& lane, const Step& step);
  // What made try_step return false for good.
  const Status& status() const { return status_; }

 private:
  using Stage = LaneState::Stage;

  void begin(const Step& step);
  bool receive(const Step& step);
  bool claim(const Step& step);
  void fold_step(const Step& step);
  void fold_piece(const Step& step, size_t piece, uint64_t offset_bytes, int own_operand, std::byte* staged);
  bool send(const Step& step);
  void release(const Step& step);

  Extent extent(Buffer buffer, ChunkId chunk) const;
  Extent sized_extent(const Step& step, uint32_t k) const;
  std::byte* address(Buffer buffer, const Extent& extent) const;
  bool transforms(const Step& step) const;
  PeerSlot recv_slot(const Step& step, uint32_t i) const { return slot_after(*lane_.lane, step.recv_first, i); }
  PeerSlot send_slot(const Step& step, uint32_t j) const { return slot_after(*lane_.lane, step.send_first, j); }

  Execution& x_;
  LaneState& lane_;
  Status status_;
};

}  // namespace tutti
