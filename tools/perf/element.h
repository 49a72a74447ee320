// Element: the twelve data types as numbers, for making and checking data.
//
// Deliberately not the library's own conversions: a checker that shares code with what it checks would agree with its
// mistakes. An element is held as its bits in the low bytes of a uint64_t.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tutti/tutti.h"

namespace tutti::perf {

// An operation as the tools name it: the API's five, a premultiplied sum, or none (the collective only moves data).
enum class Operation : int8_t {
  none = -1,
  sum = tuttiSum,
  prod = tuttiProd,
  max = tuttiMax,
  min = tuttiMin,
  avg = tuttiAvg,
  mulsum = tuttiNumOps
};
constexpr int kOperationCount = 6;  // without none

std::string_view operation_name(Operation operation);  // "sum", ..., "mulsum", "none"
std::optional<Operation> parse_operation(std::string_view name);

// nccl-tests' spellings: int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2.
std::string_view type_name(tuttiDataType_t type);
std::optional<tuttiDataType_t> parse_type(std::string_view name);
size_t type_bytes(tuttiDataType_t type);

struct TypeTraits {
  enum class Kind : uint8_t { signed_integer, unsigned_integer, floating } kind;
  uint8_t bits;
  uint8_t exponent_bits, fraction_bits;  // floating only
  bool has_infinity;                     // float8e4m3 has none: only all ones is NaN
};
TypeTraits traits_of(tuttiDataType_t type);

// Floating types only. from_double rounds to nearest even; values beyond the largest finite one are not handled,
// because no input and no result of the tools comes near it.
double float_to_double(tuttiDataType_t type, uint64_t bits);
uint64_t float_from_double(tuttiDataType_t type, double value);
bool is_finite(tuttiDataType_t type, uint64_t bits);

// For messages: "-3", "0.5".
double element_value(tuttiDataType_t type, uint64_t bits);

}  // namespace tutti::perf
