// Folds against memory bandwidth: src/reduce/fold.h for each type, operation and number of operands.
//
// bytes_per_second counts what a fold touches: k operands read, one result written. `of_copy` is that divided by what
// memcpy touches in a second at the same size, measured just before; a fold that memory alone limits is near 1, and
// above it where k > 1, as reading is cheaper than writing.
//   64 KiB operands stay in the L2 cache: what the arithmetic and the conversions cost.
//   64 MiB operands do not: what is left of it when memory is the limit.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "reduce/fold.h"

namespace tutti {
namespace {

constexpr size_t kSmallBytes = 64 << 10, kLargeBytes = 64 << 20;

struct Free {
  void operator()(std::byte* pointer) const { std::free(pointer); }
};
using Memory = std::unique_ptr<std::byte, Free>;

// Zeros: values do not change the speed, but denormal ones might.
Memory allocate(size_t bytes) {
  auto* pointer = static_cast<std::byte*>(std::aligned_alloc(4096, bytes));
  if (pointer != nullptr) std::memset(pointer, 0, bytes);
  return Memory(pointer);
}

// Bytes read and written per second by memcpy of `bytes`, measured once per size.
double copy_bytes_per_second(size_t bytes) {
  static std::map<size_t, double> measured;
  double& result = measured[bytes];
  if (result > 0) return result;
  const Memory from = allocate(bytes), to = allocate(bytes);
  using Seconds = std::chrono::duration<double>;
  for (int i = 0; i < 5; ++i) {  // the best of five loops
    const size_t copies = kLargeBytes / bytes;
    const auto start = std::chrono::steady_clock::now();
    for (size_t c = 0; c < copies; ++c) {
      std::memcpy(to.get(), from.get(), bytes);
      benchmark::ClobberMemory();
    }
    const Seconds took = std::chrono::steady_clock::now() - start;
    result = std::max(result, 2.0 * static_cast<double>(bytes * copies) / took.count());
  }
  return result;
}

void fold_operands(benchmark::State& state, DataType type, ReduceOp op, size_t operand_count, size_t bytes) {
  std::vector<Memory> memory;
  std::vector<const void*> operands;
  for (size_t k = 0; k < operand_count; ++k) operands.push_back(memory.emplace_back(allocate(bytes)).get());
  const Memory result = allocate(bytes);
  void* const results[] = {result.get()};
  const double copied = copy_bytes_per_second(bytes);
  const FoldSpec spec{.type = type, .op = op, .nranks = static_cast<uint32_t>(operand_count), .scalar_bits = 0};
  const bool scaled = op == ReduceOp::premul_sum;
  for (auto _ : state) {
    fold(spec, operands, scaled ? 0 : kNoOwnOperand, /*complete=*/true, results, bytes / size_of(type));
    benchmark::ClobberMemory();
  }
  const double touched = static_cast<double>(state.iterations()) * static_cast<double>((operand_count + 1) * bytes);
  state.SetBytesProcessed(static_cast<int64_t>(touched));
  state.counters["of_copy"] = benchmark::Counter(touched / copied, benchmark::Counter::kIsRate);
}

void add(DataType type, ReduceOp op, size_t operand_count, size_t bytes) {
  const std::string name = "fold/" + std::string(name_of(type)) + "/" + std::string(name_of(op)) +
                           "/operands:" + std::to_string(operand_count) + (bytes == kSmallBytes ? "/64K" : "/64M");
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    fold_operands(state, type, op, operand_count, bytes);
  })->MinTime(bytes == kSmallBytes ? 0.02 : 0.2);
}

// Every type and operation with two operands; more operands for the sums that gradients use.
const bool registered = [] {
  for (size_t bytes : {kSmallBytes, kLargeBytes}) {
    for (int type = 0; type < kDataTypeCount; ++type) {
      for (int op = 0; op < kReduceOpCount; ++op) {
        const auto operation = op == kReduceOpCount - 1 ? ReduceOp::premul_sum : static_cast<ReduceOp>(op);
        add(static_cast<DataType>(type), operation, 2, bytes);
      }
    }
    for (DataType type : {DataType::float32, DataType::bfloat16, DataType::float16})
      for (size_t operands : {3, 4, 8}) add(type, ReduceOp::sum, operands, bytes);
  }
  return true;
}();

}  // namespace
}  // namespace tutti
