#include "engine/byte_machine.h"

namespace tutti {

bool Execution::ByteMachine::try_step(LaneId, const Lane&, const Step& step) {
  if (lane_.stage == Stage::fresh) {
    begin(step);
    // Tile 0 is always sent, even empty, so that ranks that disagree meet; later empty tiles are left out at both ends.
    if (lane_.tile > 0 && lane_.step_bytes == 0) return true;
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

// Where chunk `chunk` of `buffer` has this tile.
Extent Execution::ByteMachine::extent(Buffer buffer, ChunkId chunk) const {
  switch (buffer) {
    case Buffer::in: return tile_of(x_.binding_.in_layout.chunk(chunk), lane_.tile, x_.tile_count_);
    case Buffer::out: return tile_of(x_.binding_.out_layout.chunk(chunk), lane_.tile, x_.tile_count_);
    case Buffer::scratch:
    case Buffer::none: break;
  }
  // The wide buffer's chunk gives the size, of scratch too.
  const Layout& wide = x_.grid_.out_blocks > x_.grid_.in_blocks ? x_.binding_.out_layout : x_.binding_.in_layout;
  const Extent e = tile_of(wide.chunk(ChunkId{chunk % x_.plan_.chunks}), lane_.tile, x_.tile_count_);
  return {chunk * x_.tile_count_, e.count};
}

Extent Execution::ByteMachine::sized_extent(const Step& step, uint32_t k) const {
  const bool by_load = step.sized_by_load();
  const Buffer buffer = by_load ? step.load_from : step.store_to;
  const uint32_t chunks = buffer == Buffer::scratch ? x_.plan_.scratch_chunks : x_.plan_.chunks;
  return extent(buffer, ChunkId{((by_load ? step.load : step.store) + k) % chunks});
}

std::byte* Execution::ByteMachine::address(Buffer buffer, const Extent& e) const {
  // An empty block of a V-variant may have an offset and yet no memory.
  const uint64_t offset_bytes = e.count == 0 ? 0 : e.offset * size_of(x_.binding_.fold.type);
  switch (buffer) {
    case Buffer::in: return const_cast<std::byte*>(x_.binding_.in) + offset_bytes;  // only ever read
    case Buffer::out: return x_.binding_.out + offset_bytes;
    case Buffer::scratch: return x_.scratch_.data() + offset_bytes;
    case Buffer::none: break;
  }
  return nullptr;
}

// The result is more than its one operand.
bool Execution::ByteMachine::transforms(const Step& step) const {
  if (!is_reduction(x_.collective_)) return false;
  const ReduceOp op = x_.binding_.fold.op;
  return (op == ReduceOp::premul_sum && step.load_from == Buffer::in) || (op == ReduceOp::avg && step.complete);
}

void Execution::ByteMachine::begin(const Step& step) {
  const uint64_t element_bytes = size_of(x_.binding_.fold.type);
  lane_.piece_counts.clear();
  lane_.load_pieces.clear();
  lane_.store_pieces.clear();
  lane_.step_bytes = 0;
  for (uint32_t k = 0; k < step.span; ++k) {
    const uint64_t count = sized_extent(step, k).count;
    lane_.piece_counts.push_back(count);
    lane_.step_bytes += count * element_bytes;
    const auto wrapped = [&](Buffer b, ChunkId first) {
      return ChunkId{(first + k) % (b == Buffer::scratch ? x_.plan_.scratch_chunks : x_.plan_.chunks)};
    };
    if (step.load_from != Buffer::none) {
      const Extent e = extent(step.load_from, wrapped(step.load_from, step.load));
      lane_.load_pieces.push_back({address(step.load_from, e), count * element_bytes});
    }
    if (step.store_to != Buffer::none) {
      const Extent e = extent(step.store_to, wrapped(step.store_to, step.store));
      lane_.store_pieces.push_back({address(step.store_to, e), count * element_bytes});
    }
  }
  lane_.operands.assign(step.recv_count, {});
  lane_.missing = step.recv_count;
  lane_.claims.assign(step.send_count, nullptr);
  lane_.sent = 0;
  lane_.lands_in_place = step.recv_count == 1 && step.load_from == Buffer::none && step.store_to != Buffer::none &&
                         !transforms(step) && !lane_.recvs[recv_slot(step, 0)]->mapped();
  if (lane_.lands_in_place)
    for (const MutablePiece& piece : lane_.store_pieces) x_.guard_.protect(piece.data, piece.bytes);
}

bool Execution::ByteMachine::receive(const Step& step) {
  for (uint32_t i = 0; i < step.recv_count && lane_.missing > 0; ++i) {
    LaneState::Operand& operand = lane_.operands[i];
    if (operand.arrived) continue;
    RecvLink* link = lane_.recvs[recv_slot(step, i)];
    const MutablePiece staged{lane_.operand_memory.data() + i * x_.message_bytes_, lane_.step_bytes};
    std::span<const MutablePiece> into;
    if (lane_.lands_in_place) into = lane_.store_pieces;
    else if (!link->mapped()) into = {&staged, 1};
    Result<Arrival> arrival = link->receive(into, lane_.step_bytes, x_.binding_.stamp);
    if (!arrival.ok()) {
      status_ = arrival.status();
      return false;
    }
    if (arrival->state == Arrival::State::pending) continue;
    const Rank peer = lane_.lane->peers[recv_slot(step, i)].rank;
    if (arrival->state == Arrival::State::mismatch) {
      x_.mismatch_ = Mismatch{peer, arrival->stamp, arrival->bytes, lane_.step_bytes};
      status_ = invalid_usage("rank {} sent a message of another operation", static_cast<uint32_t>(peer));
      return false;
    }
    operand.arrived = true;
    operand.data = link->mapped() ? arrival->data : staged.data;
    --lane_.missing;
  }
  return lane_.missing == 0;
}

bool Execution::ByteMachine::claim(const Step& step) {
  for (uint32_t j = 0; j < step.send_count; ++j) {
    SendLink* link = lane_.sends[send_slot(step, j)]->link.get();
    if (!link->mapped() || lane_.claims[j]) continue;
    Result<std::byte*> room = link->claim(lane_.step_bytes);
    if (!room.ok()) {
      status_ = room.status();
      return false;
    }
    if (!*room) return false;
    lane_.claims[j] = *room;
  }
  return true;
}

// Computes the result and puts it wherever it must go; decides where put links read it.
void Execution::ByteMachine::fold_step(const Step& step) {
  bool puts = false;
  for (uint32_t j = 0; j < step.send_count; ++j) puts |= !lane_.claims[j];
  std::byte* staged = nullptr;
  lane_.put_source.clear();
  if (puts && step.store_to != Buffer::none) {
    for (const MutablePiece& piece : lane_.store_pieces) lane_.put_source.push_back({piece.data, piece.bytes});
  } else if (puts && step.recv_count == 0 && !transforms(step)) {
    lane_.put_source = lane_.load_pieces;
  } else if (puts) {
    staged = lane_.result_memory.data() + (lane_.next_result++ % LaneState::kResultBuffers) * x_.message_bytes_;
    x_.guard_.protect(staged, lane_.step_bytes);
    lane_.put_source.push_back({staged, lane_.step_bytes});
  }
  if (!lane_.lands_in_place)
    for (const MutablePiece& piece : lane_.store_pieces) x_.guard_.protect(piece.data, piece.bytes);

  const bool scales = x_.binding_.fold.op == ReduceOp::premul_sum && step.load_from == Buffer::in;
  const int own_operand = scales && is_reduction(x_.collective_) ? step.local_pos : kNoOwnOperand;
  uint64_t offset_bytes = 0;
  for (size_t piece = 0; piece < lane_.piece_counts.size(); ++piece) {
    fold_piece(step, piece, offset_bytes, own_operand, staged);
    offset_bytes += lane_.piece_counts[piece] * size_of(x_.binding_.fold.type);
  }
}

void Execution::ByteMachine::fold_piece(const Step& step, size_t piece, uint64_t offset_bytes, int own_operand,
                                        std::byte* staged) {
  const uint64_t count = lane_.piece_counts[piece];
  if (count == 0) return;
  auto& operands = lane_.fold_operands;
  auto& results = lane_.fold_results;
  operands.clear();
  results.clear();
  for (uint32_t i = 0; i < step.recv_count; ++i) {
    if (i == step.local_pos && step.load_from != Buffer::none) operands.push_back(lane_.load_pieces[piece].data);
    operands.push_back(lane_.lands_in_place ? lane_.store_pieces[piece].data : lane_.operands[i].data + offset_bytes);
  }
  if (step.load_from != Buffer::none && step.local_pos >= step.recv_count)
    operands.push_back(lane_.load_pieces[piece].data);

  const bool copies = operands.size() == 1 && !transforms(step);
  const auto add_result = [&](std::byte* result) {
    if (!copies || result != operands[0]) results.push_back(result);  // a copy onto itself is already done
  };
  if (step.store_to != Buffer::none) add_result(lane_.store_pieces[piece].data);
  for (std::byte* room : lane_.claims)
    if (room) add_result(room + offset_bytes);
  if (staged) add_result(staged + offset_bytes);
  if (!results.empty())
    fold(x_.binding_.fold, operands, own_operand, step.complete && is_reduction(x_.collective_), results, count);
}

void Execution::ByteMachine::release(const Step& step) {
  for (uint32_t i = 0; i < step.recv_count; ++i) lane_.recvs[recv_slot(step, i)]->release();
}

bool Execution::ByteMachine::send(const Step& step) {
  for (; lane_.sent < step.send_count; ++lane_.sent) {
    SendEnd* end = lane_.sends[send_slot(step, lane_.sent)];
    if (lane_.claims[lane_.sent]) {
      end->link->post(lane_.step_bytes, x_.binding_.stamp);
      continue;
    }
    Result<bool> taken = end->link->put(lane_.put_source, x_.binding_.stamp);
    if (!taken.ok()) {
      status_ = taken.status();
      return false;
    }
    if (!*taken) return false;
    const uint64_t message = end->put_count++;
    if (end->link->retired() <= message)
      for (const ConstPiece& piece : lane_.put_source) x_.guard_.add(end, message, piece.data, piece.bytes);
  }
  return true;
}

}  // namespace tutti
