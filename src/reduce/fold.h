// Fold: k operands of one type into one result, in one pass, by the widest SIMD the processor has (Google Highway).
//
// Semantics, per element, operands in order 0..k-1, left to right:
//   integers            exact, modulo 2^bits
//   float32, float64    in their own precision
//   16- and 8-bit floats  widened to float32, folded there, rounded once to nearest even. float8e4m3 saturates to its
//                       largest finite value (it has no infinity), as NCCL's CUDA type does; float8e5m2 overflows to
//                       infinity... see fold.cc for the table.
//   max, min            a number beats a NaN; NaN only if all operands are NaN; -0 < +0 (IEEE 754-2019 maximumNumber)
// The result does not depend on alignment, count, or instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/types.h"

namespace tutti {

// Bound once per operation.
struct FoldSpec {
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  uint32_t nranks = 1;       // divisor of avg
  uint64_t scalar_bits = 0;  // premul_sum: this rank's factor, in the low bytes, of the operation's type
};

// Which operand is this rank's own input (premul_sum multiplies it); kNoOwnOperand: none of them.
constexpr int kNoOwnOperand = -1;

// results[j][i] = finish(fold over operands[0..k)[i]) for i < count and every j. k >= 1, at least one result, all of them
// equal afterwards. `complete`: apply the division of avg (float types: in float32 or float64 before rounding; integers:
// truncation). k == 1 without own operand and completion is a copy. A result may be the same memory as an operand;
// other overlaps are not allowed. Unaligned pointers are allowed. Results beyond the cache may be written with streaming
// stores; they are fenced before return.
void fold(const FoldSpec& spec, std::span<const void* const> operands, int own_operand, bool complete,
          std::span<void* const> results, size_t count);

// The same, element by element, from the definition: the reference for tests.
void fold_reference(const FoldSpec& spec, std::span<const void* const> operands, int own_operand, bool complete,
                    std::span<void* const> results, size_t count);

// The instruction set in use ("AVX3", "AVX2", "SSE4", ...).
std::string_view fold_target();

// One element as a double (exact for all but 64-bit integers beyond 2^53), and the nearest value of a type.
double element_to_double(DataType type, const void* element);
void element_from_double(DataType type, double value, void* element);

}  // namespace tutti
