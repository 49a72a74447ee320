// The kernels that nvcc has made, one table a type (kernels.cu).
#pragma once

#include "base/types.h"
#include "cuda/element.h"

namespace tutti::cuda {

// 512 threads a block: 128 registers each, and enough loads under way for one lane to use a link.
constexpr int kThreadsPerBlock = 512;

#define TUTTI_FOR_EACH_KERNEL_TYPE(use)                                                                              \
  use(int8) use(uint8) use(int32) use(uint32) use(int64) use(uint64) use(float16) use(float32) use(float64)         \
  use(bfloat16) use(float8e4m3) use(float8e5m2)

#define TUTTI_DECLARE_KERNELS(type) extern const void* const kernels_of_##type[dev::kCombineCount];
TUTTI_FOR_EACH_KERNEL_TYPE(TUTTI_DECLARE_KERNELS)
#undef TUTTI_DECLARE_KERNELS

inline const void* kernel_of(DataType type, ReduceOp op) {
  const auto combine = static_cast<size_t>(dev::combine_of(op));
  switch (type) {
#define TUTTI_KERNELS_CASE(type) \
  case DataType::type:           \
    return kernels_of_##type[combine];
    TUTTI_FOR_EACH_KERNEL_TYPE(TUTTI_KERNELS_CASE)
#undef TUTTI_KERNELS_CASE
  }
  return nullptr;
}

}  // namespace tutti::cuda
