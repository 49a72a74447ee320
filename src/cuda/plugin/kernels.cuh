// One type's instances of the move kernel: each file NAME.cu of this folder makes one table of four, so that they compile
// side by side.
#pragma once

#include "cuda/move_kernel.h"

namespace tutti::cuda {

// 512 threads a block: 128 registers each, and enough loads under way for one lane to use a link.
constexpr int kThreadsPerBlock = 512;

template <DataType type, dev::Combine combine>
__global__ void __launch_bounds__(kThreadsPerBlock, 1) move(const __grid_constant__ dev::Launch a) {
  dev::run_lane<dev::Fold<type, combine>, dev::Sound>(a);
}

}  // namespace tutti::cuda
