// The portability layer on the CPU: threads are fibers, blocks OS threads (block.h). See port.h.
#pragma once

#include <atomic>
#include <cstring>

#include "base/clock.h"
#include "cuda/block.h"

#define TUTTI_DEV inline
#define TUTTI_KERNEL inline
// A block is an OS thread.
#define TUTTI_SHARED static thread_local
#define TUTTI_UNROLL _Pragma("GCC unroll 16")

namespace tutti::dev {

inline int tid() { return Block::current().tid(); }
inline int nthreads() { return Block::current().threads(); }
inline int bid() { return Block::current().bid(); }
inline int nblocks() { return Block::current().nblocks(); }

inline void sync_block() { Block::current().wait_at(0, nthreads()); }
inline bool sync_block_any(bool mine) { return Block::current().wait_and_vote(mine); }
inline void sync_named(int id, int threads) { Block::current().wait_at(id, threads); }
inline void sync_warp() { Block::current().wait_at_warp(); }

template <class T>
T shuffle(T value, int lane) {
  static_assert(sizeof(T) <= 16);
  Block& block = Block::current();
  std::memcpy(block.exchange_place(tid()), &value, sizeof value);
  sync_warp();
  const int source = tid() / kWarpThreads * kWarpThreads + lane;
  T result = value;
  if (source < nthreads()) std::memcpy(&result, block.exchange_place(source), sizeof result);
  sync_warp();
  return result;
}
template <class T>
T shuffle_xor(T value, int mask) {
  return shuffle(value, (tid() % kWarpThreads) ^ mask);
}

inline uint64_t load_acquire(const uint64_t* p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
inline void store_release(uint64_t* p, uint64_t v) {
  Block& block = Block::current();
  if (block.delays()) block.flush_stores();
  __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
inline uint64_t load_relaxed(const uint64_t* p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
inline void store_relaxed(uint64_t* p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
inline uint32_t load_relaxed(const uint32_t* p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
inline void store_relaxed(uint32_t* p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }

inline Vec16 load16(const void* p) { return *static_cast<const Vec16*>(p); }
inline void store16(void* p, const Vec16& v) { *static_cast<Vec16*>(p) = v; }

template <class T>
void store_remote(T* p, const T& v) {
  Block& block = Block::current();
  if (block.delays()) block.store_late(p, &v, sizeof v);
  else *p = v;
}

inline Line load_line(const Line* p) {
  return {{__atomic_load_n(&p->halves[0], __ATOMIC_RELAXED), __atomic_load_n(&p->halves[1], __ATOMIC_RELAXED)}};
}
inline void store_line(Line* p, const Line& v) {
  Block& block = Block::current();
  if (block.delays()) return block.store_late(p, &v, sizeof v);
  __atomic_store_n(&p->halves[1], v.halves[1], __ATOMIC_RELAXED);
  __atomic_store_n(&p->halves[0], v.halves[0], __ATOMIC_RELAXED);
}

inline void spin_hint(uint32_t) { Block::current().yield(); }
inline uint64_t now_ns() { return static_cast<uint64_t>(steady_now()); }

}  // namespace tutti::dev
