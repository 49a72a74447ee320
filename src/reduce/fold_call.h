// FoldCall: what fold() hands to the kernels of one instruction set. Internal to this folder.
//
// Everything that the inner loops do not need to know at compile time is data: the number of operands and of results,
// which operand is scaled, what the result is divided by. Only the type and the operation choose code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "reduce/fold.h"

namespace tutti {

struct FoldCall {
  DataType type;
  ReduceOp op;  // sum, prod, max or min: avg and premul_sum are sums with a divisor or a scaled operand
  const uint8_t* const* operands;
  size_t operand_count;
  size_t scaled_operand;  // is multiplied by `scalar_bits` first; operand_count: none is
  uint64_t scalar_bits;
  uint32_t divisor;  // 0: no division
  uint8_t* const* results;
  size_t result_count;
  size_t count;
  // Past the cache (reduce/stream.h); aligned to kStreamAlignment.
  uint8_t* const* streamed = nullptr;
  size_t streamed_count = 0;
};

constexpr size_t kStreamAlignment = 64;

// The whole groups of a call that is no copy: how many elements, from the first on, are done. Streamed results must be
// aligned to kStreamAlignment; they become visible to others in order only after a fence. Where the processor or the
// type cannot stream, none is done.
size_t fold_groups_past_cache(const FoldSpec& spec, std::span<const void* const> operands, int own_operand,
                              bool complete, std::span<void* const> results, std::span<void* const> streamed,
                              size_t count);

// No operand is scaled and nothing is divided.
inline bool is_plain(const FoldCall& call) { return call.scaled_operand >= call.operand_count && call.divisor == 0; }

inline bool is_signed(DataType type) {
  return type == DataType::int8 || type == DataType::int32 || type == DataType::int64;
}

}  // namespace tutti
