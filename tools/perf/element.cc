#include "perf/element.h"

#include <array>
#include <bit>
#include <cmath>

namespace tutti::perf {
namespace {

using Kind = TypeTraits::Kind;

constexpr std::array<std::string_view, tuttiNumTypes> kTypeNames = {
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
constexpr std::array<std::string_view, kOperationCount> kOperationNames = {"sum", "prod", "max",
                                                                           "min", "avg",  "mulsum"};

constexpr std::array<TypeTraits, tuttiNumTypes> kTraits = {{{Kind::signed_integer, 8, 0, 0, false},
                                                            {Kind::unsigned_integer, 8, 0, 0, false},
                                                            {Kind::signed_integer, 32, 0, 0, false},
                                                            {Kind::unsigned_integer, 32, 0, 0, false},
                                                            {Kind::signed_integer, 64, 0, 0, false},
                                                            {Kind::unsigned_integer, 64, 0, 0, false},
                                                            {Kind::floating, 16, 5, 10, true},
                                                            {Kind::floating, 32, 8, 23, true},
                                                            {Kind::floating, 64, 11, 52, true},
                                                            {Kind::floating, 16, 8, 7, true},
                                                            {Kind::floating, 8, 4, 3, false},
                                                            {Kind::floating, 8, 5, 2, true}}};

int bias_of(const TypeTraits& t) { return (1 << (t.exponent_bits - 1)) - 1; }

}  // namespace

std::string_view operation_name(Operation operation) {
  return operation == Operation::none ? "none" : kOperationNames[static_cast<size_t>(operation)];
}

std::optional<Operation> parse_operation(std::string_view name) {
  for (size_t i = 0; i < kOperationNames.size(); ++i)
    if (kOperationNames[i] == name) return static_cast<Operation>(i);
  return std::nullopt;
}

std::string_view type_name(tuttiDataType_t type) { return kTypeNames[type]; }

std::optional<tuttiDataType_t> parse_type(std::string_view name) {
  for (size_t i = 0; i < kTypeNames.size(); ++i)
    if (kTypeNames[i] == name) return static_cast<tuttiDataType_t>(i);
  return std::nullopt;
}

size_t type_bytes(tuttiDataType_t type) { return kTraits[type].bits / 8; }

TypeTraits traits_of(tuttiDataType_t type) { return kTraits[type]; }

double float_to_double(tuttiDataType_t type, uint64_t bits) {
  const TypeTraits& t = kTraits[type];
  if (t.bits == 64) return std::bit_cast<double>(bits);
  const uint64_t fraction = bits & ((1ULL << t.fraction_bits) - 1);
  const int exponent = static_cast<int>((bits >> t.fraction_bits) & ((1ULL << t.exponent_bits) - 1));
  const double sign = (bits >> (t.bits - 1)) & 1 ? -1.0 : 1.0;
  if (!is_finite(type, bits)) return fraction == 0 && t.has_infinity ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(static_cast<double>(fraction), 1 - bias_of(t) - t.fraction_bits);
  return sign *
         std::ldexp(static_cast<double>(fraction | (1ULL << t.fraction_bits)), exponent - bias_of(t) - t.fraction_bits);
}

uint64_t float_from_double(tuttiDataType_t type, double value) {
  const TypeTraits& t = kTraits[type];
  if (t.bits == 64) return std::bit_cast<uint64_t>(value);
  const uint64_t sign = std::signbit(value) ? 1ULL << (t.bits - 1) : 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  // Counted in steps of the spacing at this magnitude; nearbyint rounds to nearest even. A mantissa that rounds up to
  // the next power of two carries into the exponent by plain addition, which is why exponent and fraction are added.
  int exponent = std::ilogb(magnitude);
  if (exponent < 1 - bias_of(t)) exponent = 1 - bias_of(t);
  const auto steps = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, t.fraction_bits - exponent)));
  const uint64_t hidden = 1ULL << t.fraction_bits;
  if (steps < hidden) return sign | steps;  // subnormal
  return sign | ((static_cast<uint64_t>(exponent + bias_of(t)) << t.fraction_bits) + (steps - hidden));
}

bool is_finite(tuttiDataType_t type, uint64_t bits) {
  const TypeTraits& t = kTraits[type];
  const uint64_t exponent_ones = ((1ULL << t.exponent_bits) - 1) << t.fraction_bits;
  const uint64_t all_ones = exponent_ones | ((1ULL << t.fraction_bits) - 1);
  return t.has_infinity ? (bits & exponent_ones) != exponent_ones : (bits & all_ones) != all_ones;
}

double element_value(tuttiDataType_t type, uint64_t bits) {
  const TypeTraits& t = kTraits[type];
  if (t.kind == Kind::floating) return float_to_double(type, bits);
  if (t.kind == Kind::unsigned_integer) return static_cast<double>(bits);
  const int unused = 64 - t.bits;
  return static_cast<double>(static_cast<int64_t>(bits << unused) >> unused);
}

}  // namespace tutti::perf
