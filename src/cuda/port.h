// The portability layer: what a kernel may use of the machine it runs on.
//
// Kernels are written once against this header. nvcc turns them into PTX (port_nvcc.h); g++ into fibers, one OS thread a
// block and one fiber a thread of it (port_fiber.h), which a laptop can run, debug and check for races.
//
//   place      tid() nthreads() bid() nblocks()
//   barriers   sync_block(): all threads of the block; sync_block_any(b) too, true where any thread's b is.
//              sync_named(id, n): n of them, id 1..15. sync_warp(): of 32
//   shuffles   shuffle(value, lane), shuffle_xor(value, mask): within a warp; every thread of it takes part
//   flags      load_acquire, store_release, load_relaxed, store_relaxed: system scope, 4 and 8 bytes. The only way to
//              talk to another block, rank or the host: volatile and stand-alone fences are not part of the layer,
//              since ThreadSanitizer does not understand them and the PTX memory model does not need them
//   data       Vec16, load16, store16: 16-byte accesses, aligned. store_remote: data that another rank will read after
//              a store_release; the fibers may delay it until then, as a link does
//   lines      Line, load_line, store_line: 16 bytes as two units of 8, each whole, in no order (protocol LL)
//   spinning   spin_hint(polls): in every loop that polls. now_ns(): a clock for deadlines
//   loops      TUTTI_UNROLL before a loop whose arrays are to be registers
//   shared     TUTTI_SHARED: a variable of the block. Plain data without constructors
//
// A barrier orders what the threads of a block did before it with what they do after it; store_release after a barrier
// publishes the stores of them all (causality order is cumulative: PTX ISA, Memory Consistency Model).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::dev {

struct alignas(16) Vec16 {
  uint32_t words[4];
};
struct alignas(16) Line {
  uint64_t halves[2];
};
constexpr int kWarpThreads = 32;

}  // namespace tutti::dev

#if defined(__CUDACC__)
#include "cuda/port_nvcc.h"
#else
#include "cuda/port_fiber.h"
#endif
