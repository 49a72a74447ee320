// Kernels of float32 sums whose protocol lacks something.
#pragma once

#include "cuda/block_pool.h"
#include "cuda/device.h"
#include "cuda/move_kernel.h"

namespace tutti::mutants {

// The counter may be seen before what it counts.
struct NoRelease {
  static void post(uint64_t* counter, uint64_t value) { dev::store_relaxed(counter, value); }
  static constexpr bool kMovesBeforePosting = true;
};
// A thread may post before the others have moved their part.
struct NoBarrier {
  static void post(uint64_t* counter, uint64_t value) { dev::store_release(counter, value); }
  static constexpr bool kMovesBeforePosting = false;
};

template <class Order>
KernelBody kernel(KernelId) {
  return [](const void* launch) {
    dev::move_kernel<dev::Fold<DataType::float32, dev::Combine::add>, Order>(*static_cast<const dev::Launch*>(launch));
  };
}

}  // namespace tutti::mutants
