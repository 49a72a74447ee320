// The move kernel's instances of one type, TUTTI_KERNEL_TYPE.
#include "cuda/plugin/kernels.cuh"

namespace tutti::cuda {

#define TUTTI_NAME(type) kernels_of_##type
#define TUTTI_TABLE(type) TUTTI_NAME(type)
constexpr DataType kType = DataType::TUTTI_KERNEL_TYPE;

// By Combine.
extern const void* const TUTTI_TABLE(TUTTI_KERNEL_TYPE)[dev::kCombineCount];
const void* const TUTTI_TABLE(TUTTI_KERNEL_TYPE)[dev::kCombineCount] = {
    reinterpret_cast<const void*>(move<kType, dev::Combine::add>),
    reinterpret_cast<const void*>(move<kType, dev::Combine::multiply>),
    reinterpret_cast<const void*>(move<kType, dev::Combine::max>),
    reinterpret_cast<const void*>(move<kType, dev::Combine::min>)};

}  // namespace tutti::cuda
