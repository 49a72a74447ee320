// The shortcuts of mapped links: messages that are lent instead of copied into a slot, and messages that the peer writes
// straight to where they are wanted. Taken for messages that are large enough and lie in shareable memory
// (base/shareable.h); links know which memory is.
//
// Why they are safe. What is lent is read by the peer until it is retired, and a granted place is written by the peer
// at any time from the start of the operation. That all other accesses to that memory are ordered by messages all the
// same, the verifier proves of every plan (plan/race.h, Touching::shortcuts). It is so because a message that is only
// stored depends on this rank's contribution to its chunk, and thus on whatever this rank did there before. A reduction
// in place that loads a chunk twice (the one-shot ones: to send it, and to fold it itself) is the exception and takes
// no shortcuts.
#include "engine/byte_machine.h"
#include "engine/lane_state.h"

namespace tutti {
namespace {

bool overlap(const std::byte* a, uint64_t a_bytes, const std::byte* b, uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

}  // namespace

bool Execution::takes_shortcuts() const {
  if (message_bytes_ < binding_.shortcut_bytes) return false;
  if (!is_reduction(collective_) || contributes_once_ || !binding_.in || !binding_.out) return true;
  const uint64_t element_bytes = size_of(binding_.fold.type);
  return !overlap(binding_.in, binding_.in_layout.end() * element_bytes, binding_.out,
                  binding_.out_layout.end() * element_bytes);
}

// Sends what is only loaded by lending it. Not by tuttiSend: who calls that counts on a copy being on its way.
bool Execution::ByteMachine::lend(const Step& step, uint32_t j) {
  if (!x_.shortcuts_ || step.recv_count > 0 || step.load_from != Buffer::in || transforms(step) ||
      lane_.now->pieces.size() != 1 || lane_.now->message_bytes < x_.binding_.shortcut_bytes ||
      x_.collective_ == Collective::send)
    return false;
  SendEnd* const end = lane_.sends[send_slot(step, j)];
  const std::byte* const place = load_place(step, lane_.now->pieces.front());
  Result<bool> lent = end->link->lend(place, lane_.now->message_bytes, x_.binding_.stamp);
  if (!lent.ok()) {
    status_ = lent.status();
    return false;
  }
  if (!*lent) return false;
  lane_.lent[j] = 1;
  x_.guard_.add(end, end->sent++, place, lane_.now->message_bytes);
  return true;
}

// Where the step's message is only stored; null where it is not, or not in one place of its full size.
MutablePiece Execution::ByteMachine::wanted_place(const Step& step, uint64_t tile) const {
  uint64_t elements = 0;
  for (uint32_t k = 0; k < step.span; ++k) elements += sized_extent(step, k, tile).count;
  const uint64_t bytes = elements * element_bytes();
  const bool only_stored =
      step.recv_count == 1 && step.load_from == Buffer::none && step.store_to == Buffer::out && !transforms(step);
  if (!only_stored || step.span != 1 || bytes < x_.binding_.shortcut_bytes) return {nullptr, bytes};
  return {base(Buffer::out) + extent(Buffer::out, step.store, tile).offset * element_bytes(), bytes};
}

void Execution::ByteMachine::grant_ahead() {
  LaneState::Ahead& ahead = lane_.ahead;
  const Lane& lane = *lane_.lane;
  while (ahead.tile < x_.tiles_) {
    if (at_end(lane, ahead.cursor)) {
      ahead = {.cursor = {}, .tile = ahead.tile + 1, .received = 0};
      continue;
    }
    const Step step = decode(x_.plan_, lane, ahead.cursor);
    const MutablePiece place = wanted_place(step, ahead.tile);
    const bool left_out = ahead.tile > 0 && place.bytes == 0;
    for (; ahead.received < step.recv_count && !left_out; ++ahead.received) {
      const PeerSlot slot = recv_slot(step, ahead.received);
      if (lane_.mapped_recvs[slot] && !lane_.recvs[slot]->grant(place.data, place.bytes)) return;
    }
    ahead.received = 0;
    advance(lane, ahead.cursor);
  }
}

}  // namespace tutti
