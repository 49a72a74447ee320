// The words of the C API as C++ values: data types, operations, collectives, and how many bytes and what names they have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tutti/tutti.h"

namespace tutti {

// The operation that a plan performs. The V-variants share plans with their uniform kin: only the block table differs.
enum class Collective : uint8_t {
  all_reduce, broadcast, reduce, reduce_scatter, all_gather, all_to_all, gather, scatter, send, recv, barrier
};
constexpr int kCollectiveCount = 11;

enum class DataType : uint8_t {
  int8 = tuttiInt8, uint8 = tuttiUint8, int32 = tuttiInt32, uint32 = tuttiUint32, int64 = tuttiInt64,
  uint64 = tuttiUint64, float16 = tuttiFloat16, float32 = tuttiFloat32, float64 = tuttiFloat64,
  bfloat16 = tuttiBfloat16, float8e4m3 = tuttiFloat8e4m3, float8e5m2 = tuttiFloat8e5m2
};
constexpr int kDataTypeCount = tuttiNumTypes;

enum class ReduceOp : uint8_t {
  sum = tuttiSum, prod = tuttiProd, max = tuttiMax, min = tuttiMin, avg = tuttiAvg, premul_sum = tuttiNumOps
};
constexpr int kReduceOpCount = 6;

// Bytes of one element. Inline, as are the next two: the engine asks at every step.
inline size_t size_of(DataType type) {
  constexpr uint8_t kTypeBytes[kDataTypeCount] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return kTypeBytes[static_cast<size_t>(type)];
}
inline bool is_reduction(Collective c) {
  return c == Collective::all_reduce || c == Collective::reduce || c == Collective::reduce_scatter;
}
inline bool has_root(Collective c) {
  return c == Collective::broadcast || c == Collective::reduce || c == Collective::gather || c == Collective::scatter;
}

// nccl-tests' spellings for types ("half", "bfloat16", "f8e4m3", "float", ...) and operations ("sum", ..., "mulsum");
// "all_reduce" and so on for collectives.
std::string_view name_of(DataType type);
std::string_view name_of(ReduceOp op);
std::string_view name_of(Collective collective);
std::optional<DataType> parse_data_type(std::string_view name);
std::optional<ReduceOp> parse_reduce_op(std::string_view name);
// Also accepts the forms without underscores and in capitals: "allreduce", "AllReduce".
std::optional<Collective> parse_collective(std::string_view name);
// What parse_collective() knows, joined by commas.
std::string collective_names();

}  // namespace tutti
