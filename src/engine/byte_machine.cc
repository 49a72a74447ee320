#include "engine/byte_machine.h"

#include <algorithm>
#include <cstring>

#include "reduce/stream.h"

namespace tutti {
namespace {

// Steps that are remembered for one operation of a shape.
constexpr size_t kKnownSteps = 256;

}  // namespace

bool Execution::ByteMachine::try_step(LaneId, const Lane&, const Step& step) {
  if (lane_.stage == Stage::fresh) {
    begin(step);
    // Tile 0 is always sent, even empty, so that ranks that disagree meet; later empty tiles are left out at both ends.
    if (lane_.tile > 0 && lane_.now->message_bytes == 0) return true;
    lane_.stage = Stage::receiving;
  }
  if (lane_.stage == Stage::receiving) {
    if (!receive(step)) return false;
    lane_.stage = Stage::claiming;
  }
  if (lane_.stage == Stage::claiming) {
    if (!claim(step)) return false;
    fold_step(step);
    release(step);
    lane_.stage = Stage::sending;
  }
  if (!send(step)) return false;
  lane_.stage = Stage::fresh;
  return true;
}

// Where chunk `chunk` of `buffer` has the tile.
Extent Execution::ByteMachine::extent(Buffer buffer, ChunkId chunk, uint64_t tile) const {
  switch (buffer) {
    case Buffer::in: return tile_of(x_.binding_.in_layout.chunk(chunk), tile, x_.tile_count_);
    case Buffer::out: return tile_of(x_.binding_.out_layout.chunk(chunk), tile, x_.tile_count_);
    case Buffer::scratch:
    case Buffer::none: break;
  }
  // The wide buffer's chunk gives the size, of scratch too.
  const Layout& wide = x_.grid_.out_blocks > x_.grid_.in_blocks ? x_.binding_.out_layout : x_.binding_.in_layout;
  const Extent e = tile_of(wide.chunk(ChunkId{chunk % x_.plan_.chunks}), tile, x_.tile_count_);
  return {chunk * x_.tile_count_, e.count};
}

Extent Execution::ByteMachine::sized_extent(const Step& step, uint32_t k, uint64_t tile) const {
  const bool by_load = step.sized_by_load();
  const Buffer buffer = by_load ? step.load_from : step.store_to;
  const uint32_t chunks = buffer == Buffer::scratch ? x_.plan_.scratch_chunks : x_.plan_.chunks;
  return extent(buffer, ChunkId{wrap((by_load ? step.load : step.store) + k, chunks)}, tile);
}

std::byte* Execution::ByteMachine::base(Buffer buffer) const {
  switch (buffer) {
    case Buffer::in: return const_cast<std::byte*>(x_.binding_.in);  // only ever read
    case Buffer::out: return x_.binding_.out;
    case Buffer::scratch: return x_.scratch_.data();
    case Buffer::none: break;
  }
  return nullptr;
}

// The result is more than its one operand.
bool Execution::ByteMachine::transforms(const Step& step) const {
  if (!reduces()) return false;
  const ReduceOp op = x_.binding_.fold.op;
  return (op == ReduceOp::premul_sum && step.load_from == Buffer::in) || (op == ReduceOp::avg && step.complete);
}

void Execution::ByteMachine::compute(const Step& step, StepPieces& pieces) const {
  pieces.pieces.clear();
  uint64_t elements = 0;
  for (uint32_t k = 0; k < step.span; ++k) {
    const auto begin_bytes = [&](Buffer buffer, ChunkId first, uint64_t count) -> uint64_t {
      if (buffer == Buffer::none || count == 0) return 0;  // an empty block may have an offset and yet no memory
      const uint32_t chunks = buffer == Buffer::scratch ? x_.plan_.scratch_chunks : x_.plan_.chunks;
      return extent(buffer, ChunkId{wrap(first + k, chunks)}, lane_.tile).offset * element_bytes();
    };
    const uint64_t count = sized_extent(step, k, lane_.tile).count;
    pieces.pieces.push_back({count, begin_bytes(step.load_from, step.load, count),
                             begin_bytes(step.store_to, step.store, count)});
    elements += count;
  }
  pieces.message_bytes = elements * element_bytes();
}

const StepPieces& Execution::ByteMachine::pieces_of(const Step& step) {
  if (x_.tiles_ > 1 || lane_.step_number >= kKnownSteps) {
    compute(step, lane_.computed);
    return lane_.computed;
  }
  if (lane_.step_number == lane_.known) {
    if (lane_.known == lane_.remembered.size()) lane_.remembered.emplace_back();
    compute(step, lane_.remembered[lane_.known++]);
  }
  return lane_.remembered[lane_.step_number++];
}

void Execution::ByteMachine::begin(const Step& step) {
  lane_.now = &pieces_of(step);
  lane_.operands.assign(step.recv_count, nullptr);
  lane_.missing = step.recv_count;
  lane_.claims.assign(step.send_count, Room{});
  lane_.lent.assign(step.send_count, 0);
  lane_.sent = 0;
  lane_.lands_in_place = step.recv_count == 1 && step.load_from == Buffer::none && step.store_to != Buffer::none &&
                         !lane_.mapped_recvs[recv_slot(step, 0)] && !transforms(step);
  if (lane_.lands_in_place) land_in_place(step);
}

void Execution::ByteMachine::land_in_place(const Step& step) {
  lane_.landing_pieces.clear();
  for (const StepPieces::Piece& piece : lane_.now->pieces) {
    lane_.landing_pieces.push_back({store_place(step, piece), piece.count * element_bytes()});
    x_.guard_.protect(lane_.landing_pieces.back().data, lane_.landing_pieces.back().bytes);
  }
}

bool Execution::ByteMachine::receive(const Step& step) {
  for (uint32_t i = 0; i < step.recv_count && lane_.missing > 0; ++i) {
    if (lane_.operands[i]) continue;
    const size_t bytes = lane_.now->message_bytes;
    const PeerSlot slot = recv_slot(step, i);
    RecvLink* link = lane_.recvs[slot];
    const bool mapped = lane_.mapped_recvs[slot];
    MutablePiece staged{};
    std::span<const MutablePiece> into;
    if (lane_.lands_in_place) {
      into = lane_.landing_pieces;
    } else if (!mapped) {
      staged = {lane_.operand_memory.data() + i * x_.message_bytes_, bytes};
      into = {&staged, 1};
    }
    Result<Arrival> arrival = link->receive(into, bytes, x_.binding_.stamp);
    if (!arrival.ok()) {
      status_ = arrival.status();
      return false;
    }
    if (arrival->state == Arrival::State::pending) continue;
    if (arrival->state == Arrival::State::mismatch) {
      const Rank peer = lane_.lane->peers[slot].rank;
      x_.mismatch_ = Mismatch{peer, arrival->stamp, arrival->bytes, bytes};
      status_ = invalid_usage("rank {} sent a message of another operation", static_cast<uint32_t>(peer));
      return false;
    }
    static constexpr std::byte kInPlace{};  // where the operand lies does not matter then
    lane_.operands[i] = mapped ? arrival->data : lane_.lands_in_place ? &kInPlace : staged.data;
    --lane_.missing;
  }
  return lane_.missing == 0;
}

bool Execution::ByteMachine::claim(const Step& step) {
  for (uint32_t j = 0; j < step.send_count; ++j) {
    if (!lane_.mapped_sends[send_slot(step, j)] || lane_.claims[j] || lane_.lent[j]) continue;
    if (!lend(step, j) && !claim_room(step, j)) return false;
  }
  return true;
}

bool Execution::ByteMachine::claim_room(const Step& step, uint32_t j) {
  if (!status_.ok()) return false;
  Result<Room> room = lane_.sends[send_slot(step, j)]->link->claim(lane_.now->message_bytes);
  if (room.ok()) lane_.claims[j] = *room;
  else status_ = room.status();
  return static_cast<bool>(lane_.claims[j]);
}

// Where put links read the result: where it is stored, where it was loaded from, or memory of the lane, which is
// returned (null: it is not used).
std::byte* Execution::ByteMachine::choose_put_source(const Step& step) {
  lane_.put_source.clear();
  bool puts = false;
  for (uint32_t j = 0; j < step.send_count; ++j) puts |= !lane_.claims[j] && !lane_.lent[j];
  if (!puts) return nullptr;
  const bool from_store = step.store_to != Buffer::none;
  if (from_store || (step.recv_count == 0 && !transforms(step))) {
    for (const StepPieces::Piece& piece : lane_.now->pieces)
      lane_.put_source.push_back(
          {from_store ? store_place(step, piece) : load_place(step, piece), piece.count * element_bytes()});
    return nullptr;
  }
  std::byte* const staged =
      lane_.result_memory.data() + (lane_.next_result++ % LaneState::kResultBuffers) * x_.message_bytes_;
  x_.guard_.protect(staged, lane_.now->message_bytes);
  lane_.put_source.push_back({staged, lane_.now->message_bytes});
  return staged;
}

// Computes the result and puts it wherever it must go.
void Execution::ByteMachine::fold_step(const Step& step) {
  std::byte* const staged = choose_put_source(step);
  if (step.store_to != Buffer::none && !lane_.lands_in_place)
    for (const StepPieces::Piece& piece : lane_.now->pieces)
      x_.guard_.protect(store_place(step, piece), piece.count * element_bytes());

  uint64_t offset_bytes = 0;
  const bool copies = step.recv_count + (step.load_from != Buffer::none ? 1 : 0) == 1 && !transforms(step);
  if (copies) {
    for (const StepPieces::Piece& piece : lane_.now->pieces) {
      if (piece.count != 0) copy_piece(step, piece, offset_bytes, staged);
      offset_bytes += piece.count * element_bytes();
    }
    return;
  }
  const bool scales = x_.binding_.fold.op == ReduceOp::premul_sum && step.load_from == Buffer::in && reduces();
  for (const StepPieces::Piece& piece : lane_.now->pieces) {
    if (piece.count != 0) fold_piece(step, piece, offset_bytes, scales ? step.local_pos : kNoOwnOperand, staged);
    offset_bytes += piece.count * element_bytes();
  }
}

// One operand that nothing is done to.
void Execution::ByteMachine::copy_piece(const Step& step, const StepPieces::Piece& piece, uint64_t offset_bytes,
                                        std::byte* staged) {
  const size_t bytes = piece.count * element_bytes();
  std::byte* const stored = step.store_to != Buffer::none ? store_place(step, piece) : nullptr;
  const std::byte* const source = step.load_from != Buffer::none ? load_place(step, piece)
                                  : lane_.lands_in_place         ? stored
                                                                 : lane_.operands[0] + offset_bytes;
  for (const Room& room : lane_.claims) {
    if (!room) continue;
    if (room.granted && x_.binding_.streams_out) stream_copy(room.data + offset_bytes, source, bytes);
    else std::memcpy(room.data + offset_bytes, source, bytes);
  }
  if (staged) std::memcpy(staged + offset_bytes, source, bytes);
  if (!stored || stored == source) return;
  if (streams(step)) stream_copy(stored, source, bytes);
  else std::memcpy(stored, source, bytes);
}

void Execution::ByteMachine::fold_piece(const Step& step, const StepPieces::Piece& piece, uint64_t offset_bytes,
                                        int own_operand, std::byte* staged) {
  auto& operands = lane_.fold_operands;
  auto& results = lane_.fold_results;
  auto& streamed = lane_.fold_streamed;
  operands.clear();
  results.clear();
  streamed.clear();
  std::byte* const stored = step.store_to != Buffer::none ? store_place(step, piece) : nullptr;
  for (uint32_t i = 0; i < step.recv_count; ++i) {
    if (i == step.local_pos && step.load_from != Buffer::none) operands.push_back(load_place(step, piece));
    operands.push_back(lane_.operands[i] + offset_bytes);
  }
  if (step.load_from != Buffer::none && step.local_pos >= step.recv_count) operands.push_back(load_place(step, piece));

  // What was just read is in the cache: an ordinary store there costs nothing more.
  const auto add_result = [&](std::byte* place, bool past_cache) {
    (past_cache && std::ranges::find(operands, place) == operands.end() ? streamed : results).push_back(place);
  };
  if (stored) add_result(stored, streams(step));
  for (const Room& room : lane_.claims)
    if (room) add_result(room.data + offset_bytes, room.granted && x_.binding_.streams_out);
  if (staged) results.push_back(staged + offset_bytes);
  fold_streaming(x_.binding_.fold, operands, own_operand, step.complete && reduces(), results, streamed, piece.count);
}

void Execution::ByteMachine::release(const Step& step) {
  // Before the credits: a peer that has the credit for a message then finds where it is wanted.
  if (x_.shortcuts_ && step.recv_count > 0) grant_ahead();
  for (uint32_t i = 0; i < step.recv_count; ++i) lane_.recvs[recv_slot(step, i)]->release();
}

bool Execution::ByteMachine::send(const Step& step) {
  for (; lane_.sent < step.send_count; ++lane_.sent) {
    if (lane_.lent[lane_.sent]) continue;
    SendEnd* end = lane_.sends[send_slot(step, lane_.sent)];
    if (lane_.claims[lane_.sent]) {
      end->link->post(lane_.now->message_bytes, x_.binding_.stamp);
      ++end->sent;
      continue;
    }
    Result<bool> taken = end->link->put(lane_.put_source, x_.binding_.stamp);
    if (!taken.ok()) {
      status_ = taken.status();
      return false;
    }
    if (!*taken) return false;
    const uint64_t message = end->sent++;
    if (end->link->retired() <= message)
      for (const ConstPiece& piece : lane_.put_source) x_.guard_.add(end, message, piece.data, piece.bytes);
  }
  return true;
}

}  // namespace tutti
