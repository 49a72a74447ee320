// LaneState: what the host engine knows of one lane between polls. Private to the engine.
#pragma once

#include <vector>

#include "engine/execution.h"

namespace tutti {

struct Execution::LaneState {
  const Lane* lane = nullptr;
  Cursor cursor;
  uint64_t tile = 0;
  bool finished = false;

  // Ends by peer slot; null where the plan does not use that direction.
  std::vector<SendEnd*> sends;
  std::vector<RecvLink*> recvs;

  // The step under way. `fresh`: none yet.
  enum class Stage : uint8_t { fresh, receiving, claiming, sending };
  Stage stage = Stage::fresh;
  size_t step_bytes = 0;                 // of the message
  std::vector<uint64_t> piece_counts;    // elements of each chunk of the span
  std::vector<ConstPiece> load_pieces;   // empty when nothing is loaded
  std::vector<MutablePiece> store_pieces;
  bool lands_in_place = false;           // the one operand is received straight into store_pieces
  struct Operand {
    const std::byte* data = nullptr;     // contiguous; unused when it lands in place
    bool arrived = false;
  };
  std::vector<Operand> operands;         // received ones, in slot order
  uint32_t missing = 0;
  std::vector<std::byte*> claims;        // by send index; null for put links
  uint32_t sent = 0;
  std::vector<ConstPiece> put_source;    // what put links send

  // Staging. Received operands of put links: one message each. Results for put links that are stored nowhere: a few
  // messages, used in turn, so that several can be on their way.
  uint32_t staged_operands = 0;  // room for the operands of any step, by their position in it
  bool stages_results = false;
  static constexpr uint32_t kResultBuffers = 4;
  std::vector<std::byte> operand_memory, result_memory;
  uint32_t next_result = 0;

  // Reused by every fold.
  std::vector<const void*> fold_operands;
  std::vector<void*> fold_results;
};

}  // namespace tutti
