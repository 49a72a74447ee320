// The data of one step in protocol ll: for latency. A message is lines of 16 bytes, each two units of 4 bytes of data
// and the message's number, which a link keeps whole. The receiver polls the lines themselves: no barrier, no fence and
// no flag lies between the sender's store and the receiver's load. Half of the bytes are data.
//
//   line 0, 1   the note: tag, sequence and size
//   then        each piece from a line of its own on, 8 bytes a line; the last one's rest is zero
#pragma once

#include "cuda/move_data.h"
#include "cuda/waiting.h"

namespace tutti::dev {

constexpr uint64_t kWordBytes = 8;

TUTTI_DEV Line line_of(uint64_t word, uint32_t flag) {
  const uint64_t high = static_cast<uint64_t>(flag) << 32;
  return Line{{high | (word & 0xffffffffu), high | word >> 32}};
}

// One message's number as a flag; slots begin with zeros, which is nobody's until 2^32 messages have gone by.
TUTTI_DEV uint32_t flag_of(uint64_t number) { return static_cast<uint32_t>(number + 1); }

// Waits until both halves of a line carry the flag; `failed`: the lane must end.
TUTTI_DEV uint64_t await_word(Wait& wait, bool& failed, const Line* line, uint32_t flag, uint32_t slot) {
  wait.slot = slot;
  for (;;) {
    const Line v = load_line(line);
    if (v.halves[0] >> 32 == flag && v.halves[1] >> 32 == flag)
      return (v.halves[0] & 0xffffffffu) | v.halves[1] << 32;
    if (failed) return 0;
    failed = !keep_waiting(wait);
  }
}

// Up to 8 bytes of elements of the caller's memory, which is aligned to its elements.
template <class Storage>
TUTTI_DEV uint64_t load_word(const std::byte* from, uint64_t bytes) {
  uint64_t word = 0;
  if (bytes >= kWordBytes && reinterpret_cast<uint64_t>(from) % kWordBytes == 0)
    return *reinterpret_cast<const uint64_t*>(from);
  for (uint64_t e = 0; e * sizeof(Storage) < kWordBytes && e * sizeof(Storage) < bytes; ++e) {
    const Storage value = reinterpret_cast<const Storage*>(from)[e];
    memcpy(reinterpret_cast<char*>(&word) + e * sizeof(Storage), &value, sizeof value);
  }
  return word;
}
template <class Storage>
TUTTI_DEV void store_word(std::byte* to, uint64_t word, uint64_t bytes) {
  if (bytes >= kWordBytes && reinterpret_cast<uint64_t>(to) % kWordBytes == 0) {
    *reinterpret_cast<uint64_t*>(to) = word;
    return;
  }
  for (uint64_t e = 0; e * sizeof(Storage) < kWordBytes && e * sizeof(Storage) < bytes; ++e) {
    Storage value;
    memcpy(&value, reinterpret_cast<const char*>(&word) + e * sizeof(Storage), sizeof value);
    reinterpret_cast<Storage*>(to)[e] = value;
  }
}

template <class F>
struct Word {
  static constexpr int kElements = kWordBytes / sizeof(typename F::Storage);
  typename F::Value values[kElements];

  TUTTI_DEV static Word widen(uint64_t bits) {
    typename F::Storage stored[kElements];
    memcpy(stored, &bits, sizeof bits);
    Word word;
    for (int e = 0; e < kElements; ++e) word.values[e] = F::Codec::widen(stored[e]);
    return word;
  }
  TUTTI_DEV uint64_t narrow() const {
    typename F::Storage stored[kElements];
    for (int e = 0; e < kElements; ++e) stored[e] = F::Codec::narrow(values[e]);
    uint64_t bits;
    memcpy(&bits, stored, sizeof bits);
    return bits;
  }
};

// Sends the step's notes and compares those of its operands, one peer a thread.
TUTTI_DEV void exchange_notes(const Launch& a, const DeviceLane& lane, const Board& b, const BoardStep& s, Wait& wait,
                              bool& failed) {
  const uint64_t sizes = static_cast<uint64_t>(s.bytes) << 32 | a.sequence;
  for (auto j = static_cast<uint32_t>(tid()); j < s.send_count; j += static_cast<uint32_t>(nthreads())) {
    const uint32_t flag = flag_of(b.sent[wrap(s.send_first + j, lane.peer_count)]);
    Line* lines = reinterpret_cast<Line*>(b.rooms[j]);
    store_line(lines, line_of(a.tag, flag));
    store_line(lines + 1, line_of(sizes, flag));
  }
  for (auto i = static_cast<uint32_t>(tid()); i < s.recv_count && !failed; i += static_cast<uint32_t>(nthreads())) {
    const uint32_t slot = wrap(s.recv_first + i, lane.peer_count);
    const uint32_t flag = flag_of(b.received[slot]);
    const Line* lines = reinterpret_cast<const Line*>(b.operands[i]);
    const uint64_t tag = await_word(wait, failed, lines, flag, slot);
    const uint64_t theirs = await_word(wait, failed, lines + 1, flag, slot);
    if (failed || (tag == a.tag && theirs == sizes)) continue;
    tell_fault(a, FaultCode::mismatch, slot,
               SlotNote{tag, static_cast<uint32_t>(theirs), static_cast<uint32_t>(theirs >> 32)}, s.bytes);
    failed = true;
  }
}

template <class F>
TUTTI_DEV uint64_t folded_word(const Board& b, const DeviceLane& lane, const BoardStep& s, const Places& at,
                               const Finish& finish, bool copy, uint64_t word, uint64_t line, uint64_t bytes,
                               Wait& wait, bool& failed) {
  using Storage = typename F::Storage;
  Word<F> sum{};
  uint64_t bits = 0;
  const uint32_t operands = at.operand_count();
  for (uint32_t j = 0; j < operands; ++j) {
    if (at.is_local(j)) {
      bits = load_word<Storage>(at.load + word * kWordBytes, bytes);
    } else {
      const uint32_t i = at.load != nullptr && j > at.local_pos ? j - 1 : j;
      const uint32_t slot = wrap(s.recv_first + i, lane.peer_count);
      bits = await_word(wait, failed, reinterpret_cast<const Line*>(b.operands[i]) + line, flag_of(b.received[slot]), slot);
    }
    if (copy) return bits;
    Word<F> value = Word<F>::widen(bits);
    for (int e = 0; e < Word<F>::kElements; ++e) {
      if (finish.scales && at.is_local(j)) value.values[e] = F::multiply(F::scalar(finish.scalar_bits), value.values[e]);
      sum.values[e] = j == 0 ? value.values[e] : F::combine(sum.values[e], value.values[e]);
    }
  }
  if (finish.divides)
    for (int e = 0; e < Word<F>::kElements; ++e) sum.values[e] = F::divide(sum.values[e], finish.nranks);
  return sum.narrow();
}

// False: the lane must end.
template <class F>
TUTTI_DEV bool move_lines(const Launch& a, const DeviceLane& lane, const Board& b, const BoardStep& s) {
  Wait wait{&a, &s, 0, false};
  bool failed = false;
  exchange_notes(a, lane, b, s, wait, failed);
  const Finish finish{a.scales && s.load_from == Buffer::in, a.divides && s.complete, a.scalar_bits, a.nranks};
  const bool copy = copies(a, s);
  uint64_t line = kNoteLines;
  for (uint32_t k = 0; k < s.span; ++k) {
    const Piece piece = piece_of(a, s, k);
    if (piece.count == 0) continue;
    const uint64_t bytes = piece.count * a.element_bytes, words = (bytes + kWordBytes - 1) / kWordBytes;
    const Places at = places_of(a, b, s, piece, 0);
    for (auto w = static_cast<uint64_t>(tid()); w < words && !failed; w += static_cast<uint64_t>(nthreads())) {
      const uint64_t rest = bytes - w * kWordBytes;
      const uint64_t result = folded_word<F>(b, lane, s, at, finish, copy, w, line + w, rest, wait, failed);
      if (failed) break;
      if (at.store != nullptr) store_word<typename F::Storage>(at.store + w * kWordBytes, result, rest);
      for (uint32_t j = 0; j < s.send_count; ++j)
        store_line(reinterpret_cast<Line*>(b.rooms[j]) + line + w,
                   line_of(result, flag_of(b.sent[wrap(s.send_first + j, lane.peer_count)])));
    }
    line += words;
  }
  return !failed;
}

}  // namespace tutti::dev
