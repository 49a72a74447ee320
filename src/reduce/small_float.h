// The 16- and 8-bit floats, one value at a time, in integer arithmetic.
//
// This is the definition that the vector kernels are tested against, and what everyone else should use for single
// values. Pure functions, usable in constant expressions; some 5 ns a call; they do not look at the rounding mode or at
// flush-to-zero.
//
//   format       exponent  mantissa  bias  largest   infinity          NaN
//   float16      5         10        15    65504     yes               exponent all ones, mantissa not 0
//   bfloat16     8         7         127   3.39e38   yes               the same
//   float8e5m2   5         2         15    57344     yes               the same
//   float8e4m3   4         3         7     448       no                0x7f and 0xff only
// Sources: IEEE 754-2019 (binary16); OCP 8-bit Floating Point Specification 1.0 (E5M2, E4M3); bfloat16 is the upper
// half of a binary32.
#pragma once

#include <bit>
#include <cstdint>

namespace tutti {

struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr int sign_shift() const { return exponent_bits + mantissa_bits; }
  constexpr uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  // Positive, quiet, without payload; without infinities the one magnitude that is not a number.
  constexpr uint32_t quiet_nan() const {
    return has_infinity ? infinity() | 1u << (mantissa_bits - 1) : (1u << sign_shift()) - 1;
  }
  // The largest code that a number too large for the format becomes.
  constexpr uint32_t overflow() const { return has_infinity ? infinity() : quiet_nan() - 1; }
};

inline constexpr SmallFloat kFloat16{5, 10, true};
inline constexpr SmallFloat kBfloat16{8, 7, true};
inline constexpr SmallFloat kFloat8e4m3{4, 3, false};
inline constexpr SmallFloat kFloat8e5m2{5, 2, true};

// 2^exponent, -1022 <= exponent <= 1023.
constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// Exact. Any NaN becomes the quiet NaN without payload; bits above the format's width are ignored.
constexpr float widen(const SmallFloat& format, uint32_t bits) {
  const uint32_t mantissa_mask = (1u << format.mantissa_bits) - 1;
  const uint32_t magnitude = bits & ((1u << format.sign_shift()) - 1);
  const uint32_t sign = bits >> format.sign_shift() & 1;
  const bool is_nan = format.has_infinity ? magnitude > format.infinity() : magnitude == format.quiet_nan();
  if (is_nan) return std::bit_cast<float>(0x7fc00000u);
  if (format.has_infinity && magnitude == format.infinity()) return std::bit_cast<float>(0x7f800000u | sign << 31);
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const uint32_t hidden_bit = exponent == 0 ? 0 : 1u << format.mantissa_bits;
  const int lowest_exponent = 1 - format.bias();
  const int quantum_exponent = lowest_exponent + (exponent == 0 ? 0 : exponent - 1) - format.mantissa_bits;
  const double value = ((magnitude & mantissa_mask) | hidden_bit) * power_of_two(quantum_exponent);
  return static_cast<float>(sign ? -value : value);
}

// The nearest value, ties to even, rounded once from any double (and so from any float). A NaN becomes quiet_nan(); a
// magnitude that rounds beyond the largest finite one becomes an infinity, or that largest one where there is none
// (float8e4m3: an infinity too becomes 448). Zeros and what rounds to zero keep their sign.
constexpr uint32_t narrow(const SmallFloat& format, double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint32_t sign = static_cast<uint32_t>(bits >> 63) << format.sign_shift();
  const uint64_t magnitude = bits & ~(1ULL << 63);
  if (magnitude > 0x7ffULL << 52) return format.quiet_nan();
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  const uint64_t significand = (magnitude & ((1ULL << 52) - 1)) | 1ULL << 52;
  const int lowest_exponent = 1 - format.bias();
  const int unit_exponent = exponent > lowest_exponent ? exponent : lowest_exponent;
  // One unit in the last place of the result is 2^shift units of the significand. From 54 on the value is less than
  // half the smallest positive number; that includes the subnormal doubles, whose significand above is wrong.
  const int shift = 52 - format.mantissa_bits + unit_exponent - exponent;
  if (shift >= 54) return sign;
  const uint64_t below_half = (1ULL << (shift - 1)) - 1;
  const uint64_t units = (significand + below_half + (significand >> shift & 1)) >> shift;
  // A carry out of the mantissa lands in the exponent, which is right; so is the step from subnormal to normal.
  const uint64_t code = (static_cast<uint64_t>(unit_exponent - lowest_exponent) << format.mantissa_bits) + units;
  return sign | static_cast<uint32_t>(code < format.overflow() ? code : format.overflow());
}

}  // namespace tutti
