// LaneState: what the host engine knows of one lane between polls. Private to the engine.
#pragma once

#include <vector>

#include "engine/execution.h"
#include "transports/transport.h"

namespace tutti {

// What a step moves at one tile, by offsets from where its buffers begin. The same for every operation of one shape, so
// that an operation of one tile, which is a small one, looks it up instead of computing it again.
struct StepPieces {
  size_t message_bytes = 0;
  struct Piece {
    uint64_t count = 0;  // elements of one chunk of the span
    uint64_t load_bytes = 0, store_bytes = 0;  // where it begins
  };
  std::vector<Piece> pieces;
};

struct Execution::LaneState {
  const Lane* lane = nullptr;
  Cursor cursor;
  std::optional<Step> step;  // the one at the cursor
  uint64_t tile = 0;
  bool finished = false;

  // Ends by peer slot; null where the plan does not use that direction.
  std::vector<SendEnd*> sends;
  std::vector<RecvLink*> recvs;
  std::vector<uint8_t> mapped_sends, mapped_recvs;  // whether they are

  // Of the binding's steps so far, where it has one tile: the first `known` of `remembered`, which keeps its memory.
  std::vector<StepPieces> remembered;
  size_t known = 0;
  size_t step_number = 0;
  StepPieces computed;  // of other operations, the step under way

  // The step under way. `fresh`: none yet.
  enum class Stage : uint8_t { fresh, receiving, claiming, sending };
  Stage stage = Stage::fresh;
  const StepPieces* now = nullptr;
  bool lands_in_place = false;                     // the one operand is received straight into landing_pieces
  std::vector<MutablePiece> landing_pieces;
  std::vector<const std::byte*> operands;          // received ones in slot order, contiguous; null: not yet
  uint32_t missing = 0;
  std::vector<Room> claims;                        // by send index; null for put links, and where it was lent
  std::vector<uint8_t> lent;                       // by send index
  uint32_t sent = 0;
  std::vector<ConstPiece> put_source;              // what put links send

  // Staging. Received operands of put links: one message each. Results for put links that are stored nowhere: a few
  // messages, used in turn, so that several can be on their way.
  uint32_t staged_operands = 0;  // room for the operands of any step, by their position in it
  bool stages_results = false;
  static constexpr uint32_t kResultBuffers = 4;
  std::vector<std::byte> operand_memory, result_memory;
  uint32_t next_result = 0;

  // How far the receiver has said where it wants its messages: the next one is number `received` of that step's.
  struct Ahead {
    Cursor cursor;
    uint64_t tile = 0;
    uint32_t received = 0;
  } ahead;

  // Reused by every fold.
  std::vector<const void*> fold_operands;
  std::vector<void*> fold_results, fold_streamed;
};

}  // namespace tutti
