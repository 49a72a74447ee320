#include "cuda/host_kernels.h"

#include <array>
#include <utility>

#include "cuda/move_kernel.h"

namespace tutti {
namespace {

template <DataType type, dev::Combine combine>
void run(const void* launch) {
  dev::move_kernel<dev::Fold<type, combine>>(*static_cast<const dev::Launch*>(launch));
}

constexpr int kKernels = kDataTypeCount * dev::kCombineCount;

template <int... i>
constexpr std::array<KernelBody, kKernels> make_table(std::integer_sequence<int, i...>) {
  return {run<static_cast<DataType>(i / dev::kCombineCount), static_cast<dev::Combine>(i % dev::kCombineCount)>...};
}

}  // namespace

KernelBody host_kernel(KernelId id) {
  static constexpr auto kTable = make_table(std::make_integer_sequence<int, kKernels>());
  return kTable[static_cast<size_t>(id.type) * dev::kCombineCount + static_cast<size_t>(dev::combine_of(id.op))];
}

}  // namespace tutti
