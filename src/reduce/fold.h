// Fold: k operands of one type into one result, in one pass, by the widest SIMD the processor has (Google Highway).
//
// Semantics, per element, operands in order 0..k-1, left to right:
//   integers            exact, modulo 2^bits. avg: the sum wraps in the type's own width, then is divided, towards zero
//   float32, float64    in their own precision. premul_sum: the product is rounded, then added (no fused multiply-add)
//   16- and 8-bit floats  widened to float32, folded (scaled, divided) there, rounded once to nearest, ties to even:
//       type         too large becomes                  NaN result
//       float16      infinity, from 65520 on            0x7e00
//       bfloat16     infinity                           0x7fc0
//       float8e5m2   infinity, from 61440 on            0x7e
//       float8e4m3   448, its largest (it has no        0x7f
//                    infinity; so does one of float32)
//     (float8e4m3 as CUDA's type does; float8e5m2 as IEEE 754 does, where CUDA's saturates at 57344.)
//   max, min            a number beats a NaN; NaN only if all operands are NaN; -0 < +0 (IEEE 754-2019 maximumNumber)
//   NaN                 any NaN result is the positive quiet one without payload: 0x7fc00000 and 0x7ff8000000000000 for
//                       float32 and float64. Only a copy (k == 1 with nothing to compute) keeps what it finds.
//   subnormals          are numbers like others
// The result has the same bits whatever the alignment, the count and the instruction set, provided that the thread runs
// with the default floating-point environment: rounding to nearest, subnormals neither flushed nor taken for zero.
//
// Threads: pure functions of their arguments, callable from any thread. Cost: each operand is read once and each result
// written once, with ordinary stores, as whoever is next reads the tile from the cache. No allocation.
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

// results[j][i] = finish(fold over operands[0..k)[i]) for i < count and every j. k >= 1, at least one result, all of
// them equal afterwards. own_operand is below k, and matters to premul_sum only. `complete`: apply the division of avg,
// by nranks >= 1 (floats: in float32 or float64 before rounding; integers: truncation); other operations have none.
// k == 1 with neither a factor nor a division is a copy. A result may be the same memory as an operand; other overlaps
// are not allowed. Unaligned pointers are allowed.
void fold(const FoldSpec& spec, std::span<const void* const> operands, int own_operand, bool complete,
          std::span<void* const> results, size_t count);

// Whether fold() with so many operands has nothing to compute.
inline bool is_copy(const FoldSpec& spec, size_t operand_count, int own_operand, bool complete) {
  return operand_count == 1 && !(spec.op == ReduceOp::premul_sum && own_operand != kNoOwnOperand) &&
         !(spec.op == ReduceOp::avg && complete);
}

// The same, element by element, from the definition: the reference for tests. Some 100 times slower.
void fold_reference(const FoldSpec& spec, std::span<const void* const> operands, int own_operand, bool complete,
                    std::span<void* const> results, size_t count);

// The instruction set in use: "AVX3" (AVX-512), "AVX2", "SSE4", "NEON", or "SCALAR" where none of these is there.
std::string_view fold_target();

// One element as a double (exact for all but 64-bit integers beyond 2^53), and the value of a type nearest to a double
// (ties to even; integers clamp to their range, and a NaN becomes 0). For tests, tools and messages, not for speed.
double element_to_double(DataType type, const void* element);
void element_from_double(DataType type, double value, void* element);

}  // namespace tutti
