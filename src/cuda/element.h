// Fold<type, combine>: elements of a type as values in registers, and what a reduction does to them; the same bits as
// src/reduce, whose header says what they are.
//
// Sums, averages and scaled sums share add; whether to scale and divide is asked once a pack. No fused multiply-adds:
// compiled with -fmad=false and -ffp-contract=off.
#pragma once

#include <cstring>
#include <limits>
#include <type_traits>

#include "base/types.h"
#include "cuda/port.h"
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#else
#include "reduce/small_float.h"
#endif

namespace tutti::dev {

enum class Combine : uint8_t { add, multiply, max, min };
constexpr int kCombineCount = 4;

constexpr Combine combine_of(ReduceOp op) {
  return op == ReduceOp::prod ? Combine::multiply
         : op == ReduceOp::max ? Combine::max
         : op == ReduceOp::min ? Combine::min
                               : Combine::add;
}

// Codec<type>: Storage, Value, widen, narrow.
template <class T>
struct PlainCodec {
  using Storage = T;
  using Value = T;
  TUTTI_DEV static T widen(T s) { return s; }
  TUTTI_DEV static T narrow(T v) {
    if constexpr (std::is_floating_point_v<T>) {
      if (v != v) return std::numeric_limits<T>::quiet_NaN();
    }
    return v;
  }
};

#if defined(__CUDACC__)
struct Float16Codec {
  using Storage = uint16_t;
  using Value = float;
  TUTTI_DEV static float widen(uint16_t s) { return __half2float(__ushort_as_half(s)); }
  TUTTI_DEV static uint16_t narrow(float v) {
    return v != v ? uint16_t{0x7e00} : __half_as_ushort(__float2half_rn(v));
  }
};
struct Bfloat16Codec {
  using Storage = uint16_t;
  using Value = float;
  TUTTI_DEV static float widen(uint16_t s) { return __uint_as_float(static_cast<uint32_t>(s) << 16); }
  TUTTI_DEV static uint16_t narrow(float v) {
    return v != v ? uint16_t{0x7fc0} : __bfloat16_as_ushort(__float2bfloat16_rn(v));
  }
};
struct Float8e4m3Codec {
  using Storage = uint8_t;
  using Value = float;
  TUTTI_DEV static float widen(uint8_t s) { return __half2float(__half(__nv_cvt_fp8_to_halfraw(s, __NV_E4M3))); }
  TUTTI_DEV static uint8_t narrow(float v) {
    return v != v ? uint8_t{0x7f} : __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
  }
};
struct Float8e5m2Codec {
  using Storage = uint8_t;
  using Value = float;
  // A float8e5m2 is the upper half of a float16.
  TUTTI_DEV static float widen(uint8_t s) {
    return __half2float(__ushort_as_half(static_cast<uint16_t>(static_cast<uint16_t>(s) << 8)));
  }
  // The processor's conversion stops at 57344; halfway to the next number, 65536, IEEE 754 has an infinity.
  TUTTI_DEV static uint8_t narrow(float v) {
    constexpr float kToInfinity = 61440;
    if (v != v) return 0x7e;
    if (fabsf(v) >= kToInfinity) return v < 0 ? 0xfc : 0x7c;
    return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E5M2);
  }
};
#else
template <class T, const SmallFloat& kFormat>
struct SmallCodec {
  using Storage = T;
  using Value = float;
  static float widen(T s) { return tutti::widen(kFormat, s); }
  static T narrow(float v) { return static_cast<T>(tutti::narrow(kFormat, v)); }
};
using Float16Codec = SmallCodec<uint16_t, kFloat16>;
using Bfloat16Codec = SmallCodec<uint16_t, kBfloat16>;
using Float8e4m3Codec = SmallCodec<uint8_t, kFloat8e4m3>;
using Float8e5m2Codec = SmallCodec<uint8_t, kFloat8e5m2>;
#endif

template <DataType type>
struct CodecOf;
template <> struct CodecOf<DataType::int8> { using Codec = PlainCodec<int8_t>; };
template <> struct CodecOf<DataType::uint8> { using Codec = PlainCodec<uint8_t>; };
template <> struct CodecOf<DataType::int32> { using Codec = PlainCodec<int32_t>; };
template <> struct CodecOf<DataType::uint32> { using Codec = PlainCodec<uint32_t>; };
template <> struct CodecOf<DataType::int64> { using Codec = PlainCodec<int64_t>; };
template <> struct CodecOf<DataType::uint64> { using Codec = PlainCodec<uint64_t>; };
template <> struct CodecOf<DataType::float16> { using Codec = Float16Codec; };
template <> struct CodecOf<DataType::float32> { using Codec = PlainCodec<float>; };
template <> struct CodecOf<DataType::float64> { using Codec = PlainCodec<double>; };
template <> struct CodecOf<DataType::bfloat16> { using Codec = Bfloat16Codec; };
template <> struct CodecOf<DataType::float8e4m3> { using Codec = Float8e4m3Codec; };
template <> struct CodecOf<DataType::float8e5m2> { using Codec = Float8e5m2Codec; };

template <class T>
TUTTI_DEV bool sign_of(T value) {
  if constexpr (sizeof(T) == 8) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 != 0;
  } else {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 31 != 0;
  }
}

template <DataType type, Combine kCombine>
struct Fold {
  using Codec = typename CodecOf<type>::Codec;
  using Storage = typename Codec::Storage;
  using Value = typename Codec::Value;
  static constexpr bool kAdds = kCombine == Combine::add;
  static constexpr bool kFloats = std::is_floating_point_v<Value>;

  TUTTI_DEV static Value multiply(Value a, Value b) {
    if constexpr (kFloats) return a * b;
    // Signed overflow is undefined; in unsigned 64 bits, cut to the type, it is arithmetic modulo 2^bits.
    else return static_cast<Value>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
  TUTTI_DEV static Value combine(Value a, Value b) {
    if constexpr (kCombine == Combine::multiply) return multiply(a, b);
    if constexpr (kCombine == Combine::add) {
      if constexpr (kFloats) return a + b;
      else return static_cast<Value>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    }
    if constexpr (kCombine == Combine::max || kCombine == Combine::min) return beats(b, a) ? b : a;
  }
  // Whether max (or min) prefers b to a: a number to a NaN, and -0 is below +0.
  TUTTI_DEV static bool beats(Value b, Value a) {
    constexpr bool kMax = kCombine == Combine::max;
    if constexpr (kFloats) {
      if (a != a) return true;
      if (b != b) return false;
      if (a == 0 && b == 0) return kMax ? sign_of(a) : sign_of(b);
    }
    return kMax ? b > a : b < a;
  }
  TUTTI_DEV static Value divide(Value value, uint32_t n) {
    if constexpr (kFloats) return value / static_cast<Value>(n);
    else if constexpr (std::is_signed_v<Value>)
      return static_cast<Value>(static_cast<int64_t>(value) / static_cast<int64_t>(n));
    else return static_cast<Value>(static_cast<uint64_t>(value) / n);
  }
  TUTTI_DEV static Value scalar(uint64_t bits) {
    Storage stored;
    memcpy(&stored, &bits, sizeof stored);  // little endian, like all of this
    return Codec::widen(stored);
  }
};

}  // namespace tutti::dev
