// The data of one step in protocol simple: messages lie whole in slots; operands are read, folded in registers and
// written to all places of the result, each byte once, 16 bytes at a time where everything is aligned to 16.
#pragma once

#include "cuda/board.h"
#include "cuda/element.h"

namespace tutti::dev {

// The addresses that a piece of a step touches, from the board: received messages and rooms at `offset`.
struct Places {
  const Board* board;
  uint64_t offset;
  const std::byte* load;  // null: no local operand
  std::byte* store;       // null: not stored
  uint32_t recv_count, send_count, local_pos;

  TUTTI_DEV uint32_t operand_count() const { return recv_count + (load != nullptr ? 1 : 0); }
  TUTTI_DEV bool is_local(uint32_t j) const { return load != nullptr && j == local_pos; }
  TUTTI_DEV const std::byte* operand(uint32_t j) const {
    if (is_local(j)) return load;
    return board->operands[load != nullptr && j > local_pos ? j - 1 : j] + offset;
  }
  TUTTI_DEV std::byte* room(uint32_t j) const { return board->rooms[j] + offset; }
  // What all addresses have in common: its low bits are zero where all are aligned.
  TUTTI_DEV uint64_t all_bits() const {
    uint64_t bits = reinterpret_cast<uint64_t>(load) | reinterpret_cast<uint64_t>(store) | offset;
    return bits;  // slots begin at multiples of 128
  }
};

TUTTI_DEV std::byte* buffer_base(const Launch& a, Buffer buffer) {
  return buffer == Buffer::in ? const_cast<std::byte*>(a.in) : buffer == Buffer::out ? a.out : a.scratch;
}

TUTTI_DEV Places places_of(const Launch& a, const Board& b, const BoardStep& s, const Piece& p, uint64_t offset) {
  Places places;
  places.board = &b;
  places.offset = offset;
  places.load = s.loads() ? buffer_base(a, s.load_from) + p.load_bytes : nullptr;
  places.store = s.stores() ? buffer_base(a, s.store_to) + p.store_bytes : nullptr;
  places.recv_count = s.recv_count;
  places.send_count = s.send_count;
  places.local_pos = s.local_pos < s.recv_count ? s.local_pos : s.recv_count;
  return places;
}

// ---- copies

// In units of T, kUnroll loads under way at a time.
template <class T, int kUnroll>
TUTTI_DEV void copy_units(const Places& at, const std::byte* from, uint64_t units) {
  const auto step = static_cast<uint64_t>(nthreads());
  const T* source = reinterpret_cast<const T*>(from);
  const bool stores = at.store != nullptr && at.store != from;
  const auto put = [&](uint64_t i, const T& value) {
    if (stores) reinterpret_cast<T*>(at.store)[i] = value;
    for (uint32_t j = 0; j < at.send_count; ++j) store_remote(reinterpret_cast<T*>(at.room(j)) + i, value);
  };
  uint64_t i = static_cast<uint64_t>(tid());
  for (; i + (kUnroll - 1) * step < units; i += kUnroll * step) {
    T values[kUnroll];
TUTTI_UNROLL
    for (int u = 0; u < kUnroll; ++u) values[u] = source[i + static_cast<uint64_t>(u) * step];
TUTTI_UNROLL
    for (int u = 0; u < kUnroll; ++u) put(i + static_cast<uint64_t>(u) * step, values[u]);
  }
  for (; i < units; i += step) put(i, source[i]);
}

// The last bytes that are no whole unit.
TUTTI_DEV void copy_rest(const Places& at, const std::byte* from, uint64_t begin, uint64_t bytes) {
  for (uint64_t i = begin + static_cast<uint64_t>(tid()); i < bytes; i += static_cast<uint64_t>(nthreads())) {
    const std::byte value = from[i];
    if (at.store != nullptr && at.store != from) at.store[i] = value;
    for (uint32_t j = 0; j < at.send_count; ++j) store_remote(at.room(j) + i, value);
  }
}

TUTTI_DEV void copy_piece(const Places& at, uint64_t bytes) {
  const std::byte* from = at.operand(0);
  const uint64_t bits = at.all_bits();
  if (bits % sizeof(Vec16) == 0) {
    copy_units<Vec16, 4>(at, from, bytes / sizeof(Vec16));
    copy_rest(at, from, bytes / sizeof(Vec16) * sizeof(Vec16), bytes);
  } else if (bits % sizeof(uint32_t) == 0) {
    copy_units<uint32_t, 4>(at, from, bytes / sizeof(uint32_t));
    copy_rest(at, from, bytes / sizeof(uint32_t) * sizeof(uint32_t), bytes);
  } else {
    copy_rest(at, from, 0, bytes);
  }
}

// ---- folds

// 16 bytes of elements as values.
template <class F>
struct Pack {
  static constexpr int kElements = sizeof(Vec16) / sizeof(typename F::Storage);
  typename F::Value values[kElements];

  TUTTI_DEV static Pack widen(const Vec16& bits) {
    typename F::Storage stored[kElements];
    memcpy(stored, &bits, sizeof bits);
    Pack pack;
TUTTI_UNROLL
    for (int e = 0; e < kElements; ++e) pack.values[e] = F::Codec::widen(stored[e]);
    return pack;
  }
  TUTTI_DEV Vec16 narrow() const {
    typename F::Storage stored[kElements];
TUTTI_UNROLL
    for (int e = 0; e < kElements; ++e) stored[e] = F::Codec::narrow(values[e]);
    Vec16 bits;
    memcpy(&bits, stored, sizeof bits);
    return bits;
  }
};

// Only sums are scaled and divided.
template <class F>
constexpr bool kScales = F::kAdds;

struct Finish {
  bool scales, divides;
  uint64_t scalar_bits;
  uint32_t nranks;
};

template <class F>
TUTTI_DEV Pack<F> operand_pack(const Vec16& bits, bool scaled, const Finish& finish) {
  Pack<F> pack = Pack<F>::widen(bits);
  if (scaled) {
    const typename F::Value scalar = F::scalar(finish.scalar_bits);
TUTTI_UNROLL
    for (int e = 0; e < Pack<F>::kElements; ++e) pack.values[e] = F::multiply(scalar, pack.values[e]);
  }
  return pack;
}

template <class F, int kUnroll>
TUTTI_DEV void load_packs(const Places& at, const Finish& finish, uint32_t j, uint64_t begin, uint64_t step,
                          Pack<F> (&packs)[kUnroll]) {
  const Vec16* source = reinterpret_cast<const Vec16*>(at.operand(j));
  const bool scaled = kScales<F> && finish.scales && at.is_local(j);
  Vec16 bits[kUnroll];
TUTTI_UNROLL
  for (int u = 0; u < kUnroll; ++u) bits[u] = load16(source + begin + static_cast<uint64_t>(u) * step);
TUTTI_UNROLL
  for (int u = 0; u < kUnroll; ++u) packs[u] = operand_pack<F>(bits[u], scaled, finish);
}

// kUnroll packs of each operand under way at a time; all in registers.
template <class F, int kUnroll>
TUTTI_DEV void fold_packs(const Places& at, const Finish& finish, uint64_t begin, uint64_t step) {
  Pack<F> sum[kUnroll];
  load_packs<F, kUnroll>(at, finish, 0, begin, step, sum);
  const uint32_t operands = at.operand_count();
  for (uint32_t j = 1; j < operands; ++j) {
    Pack<F> next[kUnroll];
    load_packs<F, kUnroll>(at, finish, j, begin, step, next);
TUTTI_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
TUTTI_UNROLL
      for (int e = 0; e < Pack<F>::kElements; ++e) sum[u].values[e] = F::combine(sum[u].values[e], next[u].values[e]);
    }
  }
TUTTI_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    if (kScales<F> && finish.divides) {
TUTTI_UNROLL
      for (int e = 0; e < Pack<F>::kElements; ++e) sum[u].values[e] = F::divide(sum[u].values[e], finish.nranks);
    }
    const Vec16 bits = sum[u].narrow();
    const uint64_t i = begin + static_cast<uint64_t>(u) * step;
    if (at.store != nullptr) store16(at.store + i * sizeof(Vec16), bits);
    for (uint32_t j = 0; j < at.send_count; ++j) store_remote(reinterpret_cast<Vec16*>(at.room(j)) + i, bits);
  }
}

// Elements [begin, count) one by one: what is not aligned, and tails.
template <class F>
TUTTI_DEV void fold_elements(const Places& at, const Finish& finish, uint64_t begin, uint64_t count) {
  using Storage = typename F::Storage;
  const uint32_t operands = at.operand_count();
  for (uint64_t i = begin + static_cast<uint64_t>(tid()); i < count; i += static_cast<uint64_t>(nthreads())) {
    typename F::Value sum{};
    for (uint32_t j = 0; j < operands; ++j) {
      typename F::Value value = F::Codec::widen(reinterpret_cast<const Storage*>(at.operand(j))[i]);
      if (finish.scales && at.is_local(j)) value = F::multiply(F::scalar(finish.scalar_bits), value);
      sum = j == 0 ? value : F::combine(sum, value);
    }
    if (finish.divides) sum = F::divide(sum, finish.nranks);
    const Storage stored = F::Codec::narrow(sum);
    if (at.store != nullptr) reinterpret_cast<Storage*>(at.store)[i] = stored;
    for (uint32_t j = 0; j < at.send_count; ++j) store_remote(reinterpret_cast<Storage*>(at.room(j)) + i, stored);
  }
}

// How many packs fit the registers of a thread (128 where a block has 512) beside addresses: 32 values of 4 bytes.
template <class F>
constexpr int kFoldUnroll = Pack<F>::kElements >= 16 ? 1 : Pack<F>::kElements == 8 ? 2 : 4;

template <class F>
TUTTI_DEV void fold_piece(const Places& at, const Finish& finish, uint64_t count) {
  constexpr uint64_t kElements = Pack<F>::kElements;
  if (at.all_bits() % sizeof(Vec16) != 0) return fold_elements<F>(at, finish, 0, count);
  const auto step = static_cast<uint64_t>(nthreads());
  const uint64_t packs = count / kElements;
  uint64_t i = static_cast<uint64_t>(tid());
  for (; i + (kFoldUnroll<F> - 1) * step < packs; i += kFoldUnroll<F> * step)
    fold_packs<F, kFoldUnroll<F>>(at, finish, i, step);
  if constexpr (kFoldUnroll<F> > 1) {
    for (; i < packs; i += step) fold_packs<F, 1>(at, finish, i, step);
  }
  fold_elements<F>(at, finish, packs * kElements, count);
}

template <class F>
TUTTI_DEV void move_data(const Launch& a, const Board& b, const BoardStep& s) {
  uint64_t offset = 0;
  const Finish finish{a.scales && s.load_from == Buffer::in, a.divides && s.complete, a.scalar_bits, a.nranks};
  const bool copy = copies(a, s);
  for (uint32_t k = 0; k < s.span; ++k) {
    const Piece piece = piece_of(a, s, k);
    if (piece.count == 0) continue;
    const Places at = places_of(a, b, s, piece, offset);
    if (copy) copy_piece(at, piece.count * a.element_bytes);
    else fold_piece<F>(at, finish, piece.count);
    offset += piece.count * a.element_bytes;
  }
}

}  // namespace tutti::dev
