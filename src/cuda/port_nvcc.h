// The portability layer on a GPU: PTX. See port.h.
#pragma once

#define TUTTI_DEV __device__ __forceinline__
#define TUTTI_KERNEL __global__
#define TUTTI_SHARED __shared__
#define TUTTI_UNROLL _Pragma("unroll")

namespace tutti::dev {

TUTTI_DEV int tid() { return static_cast<int>(threadIdx.x); }
TUTTI_DEV int nthreads() { return static_cast<int>(blockDim.x); }
TUTTI_DEV int bid() { return static_cast<int>(blockIdx.x); }
TUTTI_DEV int nblocks() { return static_cast<int>(gridDim.x); }

TUTTI_DEV void sync_block() { __syncthreads(); }
TUTTI_DEV bool sync_block_any(bool mine) { return __syncthreads_or(mine) != 0; }
TUTTI_DEV void sync_named(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
TUTTI_DEV void sync_warp() { __syncwarp(); }
template <class T>
TUTTI_DEV T shuffle(T value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
template <class T>
TUTTI_DEV T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}

// System scope: the other end is another GPU, another process or the host.
TUTTI_DEV uint64_t load_acquire(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
TUTTI_DEV void store_release(uint64_t* p, uint64_t v) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
TUTTI_DEV uint64_t load_relaxed(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
TUTTI_DEV void store_relaxed(uint64_t* p, uint64_t v) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
TUTTI_DEV uint32_t load_relaxed(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
TUTTI_DEV void store_relaxed(uint32_t* p, uint32_t v) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// Not the non-coherent path: the same address holds another message a few steps later.
TUTTI_DEV Vec16 load16(const void* p) {
  Vec16 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
               : "l"(p)
               : "memory");
  return v;
}
TUTTI_DEV void store16(void* p, const Vec16& v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.words[0]), "r"(v.words[1]), "r"(v.words[2]),
               "r"(v.words[3])
               : "memory");
}
template <class T>
TUTTI_DEV void store_remote(T* p, const T& v) {
  *p = v;
}
TUTTI_DEV void store_remote(Vec16* p, const Vec16& v) { store16(p, v); }

// A vector access is several scalar ones in no order; each of 8 bytes is whole.
TUTTI_DEV Line load_line(const Line* p) {
  Line v;
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(v.halves[0]), "=l"(v.halves[1]) : "l"(p) : "memory");
  return v;
}
TUTTI_DEV void store_line(Line* p, const Line& v) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(v.halves[0]), "l"(v.halves[1]) : "memory");
}

TUTTI_DEV void spin_hint(uint32_t polls) {
  // Some microseconds of polling in full, then the issue slots and the memory system belong to those who have work.
  constexpr uint32_t kPollsInFull = 4096;
  if (polls > kPollsInFull) __nanosleep(polls > 16 * kPollsInFull ? 1000 : 100);
}
TUTTI_DEV uint64_t now_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

}  // namespace tutti::dev
