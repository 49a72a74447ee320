// One type's instances of the move kernel: each file NAME.cu of this folder makes one table of four, so that they compile
// side by side.
#pragma once

#include "cuda/move_kernel.h"
#include "cuda/plugin/kernel_table.h"

namespace tutti::cuda {

template <DataType type, dev::Combine combine>
__global__ void __launch_bounds__(kThreadsPerBlock, 1) move(const __grid_constant__ dev::Launch a) {
  dev::run_lane<dev::Fold<type, combine>, dev::Sound>(a);
}

}  // namespace tutti::cuda
