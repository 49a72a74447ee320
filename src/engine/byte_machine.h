// ByteMachine: the StepMachine (plan/machine.h) whose values are bytes in memory and messages on links. Private to the
// engine.
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
  // Tells mapped links where the messages to come are wanted, as far ahead as they take it.
  void grant_ahead();
  // What made try_step return false for good.
  const Status& status() const { return status_; }

 private:
  using Stage = LaneState::Stage;

  void begin(const Step& step);
  const StepPieces& pieces_of(const Step& step);
  void compute(const Step& step, StepPieces& pieces) const;
  void land_in_place(const Step& step);
  bool receive(const Step& step);
  bool claim(const Step& step);
  bool lend(const Step& step, uint32_t j);
  bool claim_room(const Step& step, uint32_t j);
  void fold_step(const Step& step);
  std::byte* choose_put_source(const Step& step);
  bool streams(const Step& step) const { return step.store_to == Buffer::out && x_.binding_.streams_out; }
  void copy_piece(const Step& step, const StepPieces::Piece& piece, uint64_t offset_bytes, std::byte* staged);
  void fold_piece(const Step& step, const StepPieces::Piece& piece, uint64_t offset_bytes, int own_operand,
                  std::byte* staged);
  bool send(const Step& step);
  void release(const Step& step);

  uint64_t element_bytes() const { return size_of(x_.binding_.fold.type); }
  Extent extent(Buffer buffer, ChunkId chunk, uint64_t tile) const;
  Extent sized_extent(const Step& step, uint32_t k, uint64_t tile) const;
  MutablePiece wanted_place(const Step& step, uint64_t tile) const;
  std::byte* base(Buffer buffer) const;
  std::byte* load_place(const Step& step, const StepPieces::Piece& p) const { return base(step.load_from) + p.load_bytes; }
  std::byte* store_place(const Step& step, const StepPieces::Piece& p) const {
    return base(step.store_to) + p.store_bytes;
  }
  bool reduces() const { return is_reduction(x_.collective_); }
  bool transforms(const Step& step) const;
  PeerSlot recv_slot(const Step& step, uint32_t i) const { return slot_after(*lane_.lane, step.recv_first, i); }
  PeerSlot send_slot(const Step& step, uint32_t j) const { return slot_after(*lane_.lane, step.send_first, j); }

  Execution& x_;
  LaneState& lane_;
  Status status_;
};

}  // namespace tutti
