// Codecs: how the elements of one type become vectors to compute with, and back. Compiled once per instruction set.
//
// A codec has a Tag (what is computed with), Stored (a vector as it lies in memory), kElementBytes, kParts, and
//   load(p), store(s, p)    kParts * kLanes elements at any address
//   widen(s, v)             to kParts vectors to compute with, in an order of the codec's own
//   narrow(v) -> s          the way back, rounded once; every NaN made the quiet one without payload
//   narrow_numbers(v) -> s  the same where there is no NaN
//   scalar(bits)            the factor of premul_sum, in all lanes
//   divide(vector, call)    the division of avg
#if defined(TUTTI_REDUCE_CODEC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_CODEC_INL_H_
#undef TUTTI_REDUCE_CODEC_INL_H_
#else
#define TUTTI_REDUCE_CODEC_INL_H_
#endif

#include <bit>
#include <cstring>
#include <type_traits>

#include "hwy/highway.h"
#include "reduce/fold_call.h"
#include "reduce/small_float.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Highway's LoadU and StoreU take any address, except that its one-lane target dereferences the pointer.
template <class D>
HWY_INLINE hn::VFromD<D> load_unaligned(D d, const uint8_t* p) {
#if HWY_TARGET == HWY_SCALAR
  hn::TFromD<D> element;
  std::memcpy(&element, p, sizeof(element));
  return hn::Set(d, element);
#else
  return hn::LoadU(d, reinterpret_cast<const hn::TFromD<D>*>(p));
#endif
}

template <class D>
HWY_INLINE void store_unaligned(D d, hn::VFromD<D> v, uint8_t* p) {
#if HWY_TARGET == HWY_SCALAR
  const hn::TFromD<D> element = hn::GetLane(v);
  (void)d;
  std::memcpy(p, &element, sizeof(element));
#else
  hn::StoreU(v, d, reinterpret_cast<hn::TFromD<D>*>(p));
#endif
}

// Past the cache, to an address that is aligned to the vector's size. Only where can_stream().
template <class D>
constexpr bool can_stream() {
  return HWY_TARGET != HWY_SCALAR && hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) >= 16;
}
template <class D>
HWY_INLINE void stream_aligned(D d, hn::VFromD<D> v, uint8_t* p) {
#if HWY_TARGET == HWY_SCALAR
  store_unaligned(d, v, p);
#else
  hn::Stream(v, d, reinterpret_cast<hn::TFromD<D>*>(p));
#endif
}

// Lane by lane, as vectors cannot divide integers. Up to 32 bits in double, which compilers vectorise: the quotient of
// two integers below 2^32 is an integer or at least 2^-32 of its size away from one, and a double is good to 2^-53 of
// its size, so that truncating it is exact.
template <class T>
HWY_NOINLINE void divide_lanes(T* lanes, size_t lane_count, uint32_t divisor) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  for (size_t i = 0; i < lane_count; ++i) {
    if constexpr (sizeof(T) == 8) {
      lanes[i] /= static_cast<Wide>(divisor);
    } else {
      lanes[i] = static_cast<T>(static_cast<Wide>(static_cast<double>(lanes[i]) / static_cast<double>(divisor)));
    }
  }
}

// Integers, float32 and float64: computed with as they are.
template <class T>
struct PlainCodec {
  using Tag = hn::ScalableTag<T>;
  using Vector = hn::VFromD<Tag>;
  using StoredTag = Tag;
  using Stored = Vector;
  static constexpr size_t kLanes = hn::MaxLanes(Tag());
  static constexpr size_t kParts = 1;
  static constexpr size_t kElementBytes = sizeof(T);

  static HWY_INLINE Stored load(const uint8_t* p) { return load_unaligned(Tag(), p); }
  static HWY_INLINE void store(Stored s, uint8_t* p) { store_unaligned(Tag(), s, p); }
  static HWY_INLINE void widen(Stored s, Vector* v) { v[0] = s; }

  static HWY_INLINE Vector canonical(Vector v) {
    return hn::IfThenElse(hn::IsNaN(v), hn::Set(Tag(), std::numeric_limits<T>::quiet_NaN()), v);
  }
  static HWY_INLINE Stored narrow(const Vector* v) {
    if constexpr (std::is_floating_point_v<T>) {
      return canonical(v[0]);
    } else {
      return v[0];
    }
  }
  static HWY_INLINE Stored narrow_numbers(const Vector* v) { return v[0]; }

  static HWY_INLINE Vector scalar(uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof(value));
    return hn::Set(Tag(), value);
  }

  static HWY_INLINE Vector divide(Vector v, const FoldCall& call) {
    if constexpr (std::is_floating_point_v<T>) {
      return v / hn::Set(Tag(), static_cast<T>(call.divisor));
    } else {
      // Sums of signed integers are folded as unsigned ones; only here the sign matters.
      HWY_ALIGN T lanes[kLanes];
      hn::Store(v, Tag(), lanes);
      if (is_signed(call.type)) {
        divide_lanes(reinterpret_cast<std::make_signed_t<T>*>(lanes), kLanes, call.divisor);
      } else {
        divide_lanes(reinterpret_cast<std::make_unsigned_t<T>*>(lanes), kLanes, call.divisor);
      }
      return hn::Load(Tag(), lanes);
    }
  }
};

// What the small floats have in common: they are computed with as float32.
template <class Storage>
struct WidenedFloat {
  using Tag = hn::ScalableTag<float>;
  using Bits = hn::RebindToSigned<Tag>;
  using StoredTag = hn::Rebind<Storage, Tag>;
  using Vector = hn::VFromD<Tag>;
  using Integer = hn::VFromD<Bits>;
  using Stored = hn::VFromD<StoredTag>;
  static constexpr size_t kLanes = hn::MaxLanes(Tag());
  static constexpr size_t kParts = 1;
  static constexpr size_t kElementBytes = sizeof(Storage);

  static HWY_INLINE Stored load(const uint8_t* p) { return load_unaligned(StoredTag(), p); }
  static HWY_INLINE void store(Stored s, uint8_t* p) { store_unaligned(StoredTag(), s, p); }
  static HWY_INLINE Vector divide(Vector v, const FoldCall& call) {
    return v / hn::Set(Tag(), static_cast<float>(call.divisor));
  }

  static HWY_INLINE Integer constant(uint32_t bits) { return hn::Set(Bits(), std::bit_cast<int32_t>(bits)); }
  static HWY_INLINE Integer bits_of(Vector v) { return hn::BitCast(Bits(), v); }
  static HWY_INLINE Vector float_of(Integer bits) { return hn::BitCast(Tag(), bits); }
  static HWY_INLINE Integer zero_extended(Stored s) { return hn::PromoteTo(Bits(), s); }
  // The low bits of each lane, which no other bits are set above.
  static HWY_INLINE Stored packed(Integer code) {
    return hn::TruncateTo(StoredTag(), hn::BitCast(hn::RebindToUnsigned<Bits>(), code));
  }
};

// float32 to a format with fewer exponent bits, in integer arithmetic; the code in the low bits of each lane. The same
// steps as narrow() in small_float.h.
template <const SmallFloat& kFormat>
HWY_INLINE hn::VFromD<WidenedFloat<uint8_t>::Bits> encode(hn::VFromD<hn::ScalableTag<float>> v) {
  using W = WidenedFloat<uint8_t>;
  constexpr int kShift = 23 - kFormat.mantissa_bits;
  // Added to a magnitude below the smallest normal, this float pushes the bits that do not fit out of the mantissa;
  // the addition rounds them, and what stays below it is the code.
  constexpr uint32_t kPusher = static_cast<uint32_t>(127 + 1 - kFormat.bias() + kShift) << 23;
  constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(127 + 1 - kFormat.bias()) << 23;
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kFormat.bias()) << 23;

  const auto bits = W::bits_of(v);
  const auto magnitude = hn::And(bits, W::constant(0x7fffffff));
  const auto odd = hn::And(hn::ShiftRight<kShift>(magnitude), W::constant(1));
  const auto normal = hn::ShiftRight<kShift>(magnitude + odd + W::constant((1u << (kShift - 1)) - 1 - kRebias));
  const auto subnormal = W::bits_of(W::float_of(magnitude) + W::float_of(W::constant(kPusher))) - W::constant(kPusher);
  const auto code = hn::Min(hn::IfThenElse(hn::Lt(magnitude, W::constant(kSmallestNormal)), subnormal, normal),
                            W::constant(kFormat.overflow()));
  const auto sign = hn::And(hn::ShiftRight<31 - kFormat.sign_shift()>(bits), W::constant(1u << kFormat.sign_shift()));
  return hn::IfThenElse(hn::Gt(magnitude, W::constant(0x7f800000)), W::constant(kFormat.quiet_nan()),
                        hn::Or(code, sign));
}

// The float32 of a float16's bits (in the low half of each lane), in integer arithmetic. A subnormal is built as
// 2^-14 plus itself, from which 2^-14 is then subtracted, so that no subnormal float32, slow on many processors,
// occurs.
HWY_INLINE hn::VFromD<hn::ScalableTag<float>> decode_float16(hn::VFromD<WidenedFloat<uint16_t>::Bits> half) {
  using W = WidenedFloat<uint16_t>;
  const auto magnitude = hn::ShiftLeft<13>(hn::And(half, W::constant(0x7fff)));
  const auto rebias = W::constant((127u - 15u) << 23);
  const auto normal = magnitude + rebias;
  const auto special = normal + rebias;
  const auto offset = W::constant((127u - 14u) << 23);
  const auto subnormal = W::bits_of(W::float_of(magnitude + offset) - W::float_of(offset));
  const auto finite = hn::IfThenElse(hn::Lt(magnitude, W::constant(1u << 23)), subnormal, normal);
  const auto value = hn::IfThenElse(hn::Lt(magnitude, W::constant(31u << 23)), finite, special);
  return W::float_of(hn::Or(value, hn::ShiftLeft<16>(hn::And(half, W::constant(0x8000)))));
}

// AVX2 and later convert float16 in hardware, exactly or to nearest even whatever the rounding mode, subnormals too.
#undef TUTTI_HARDWARE_FLOAT16
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define TUTTI_HARDWARE_FLOAT16 1
#else
#define TUTTI_HARDWARE_FLOAT16 0
#endif

template <class StoredVector>
HWY_INLINE hn::VFromD<hn::ScalableTag<float>> widen_float16(StoredVector s) {
  using W = WidenedFloat<uint16_t>;
#if TUTTI_HARDWARE_FLOAT16
  return hn::PromoteTo(W::Tag(), hn::BitCast(hn::Rebind<hwy::float16_t, W::Tag>(), s));
#else
  return decode_float16(W::zero_extended(s));
#endif
}

struct Float16Codec : WidenedFloat<uint16_t> {
  static HWY_INLINE void widen(Stored s, Vector* v) { v[0] = widen_float16(s); }
  static HWY_INLINE Vector scalar(uint64_t bits) {
    return hn::Set(Tag(), tutti::widen(kFloat16, static_cast<uint32_t>(bits)));
  }
#if TUTTI_HARDWARE_FLOAT16
  static HWY_INLINE Stored narrow_numbers(const Vector* v) {
    return hn::BitCast(StoredTag(), hn::DemoteTo(hn::Rebind<hwy::float16_t, Tag>(), v[0]));
  }
  static HWY_INLINE Stored narrow(const Vector* v) {
    const Vector canonical = PlainCodec<float>::canonical(v[0]);
    return narrow_numbers(&canonical);
  }
#else
  static HWY_INLINE Stored narrow(const Vector* v) { return packed(encode<kFloat16>(v[0])); }
  static HWY_INLINE Stored narrow_numbers(const Vector* v) { return narrow(v); }
#endif
};

// A bfloat16 is the upper half of a float32. Two of them that lie in 32 bits are widened where they are, the one by a
// shift, the other by a mask: moving elements from lane to lane would cost more than all the arithmetic. Highway's own
// conversion truncates, and its float32-to-bfloat16 instruction would flush subnormals.
struct Bfloat16Codec : WidenedFloat<uint16_t> {
  using Unsigned = hn::RebindToUnsigned<Tag>;
  using Codes = hn::VFromD<Unsigned>;
#if HWY_TARGET == HWY_SCALAR
  static HWY_INLINE void widen(Stored s, Vector* v) { v[0] = float_of(hn::ShiftLeft<16>(zero_extended(s))); }
  static HWY_INLINE Stored narrow(const Vector* v) { return hn::TruncateTo(StoredTag(), hn::ShiftRight<16>(code(v[0]))); }
  static HWY_INLINE Stored narrow_numbers(const Vector* v) { return narrow(v); }
#else
  static constexpr size_t kParts = 2;
  using StoredTag = hn::Repartition<uint16_t, Tag>;
  using Stored = hn::VFromD<StoredTag>;
  static HWY_INLINE Stored load(const uint8_t* p) { return load_unaligned(StoredTag(), p); }
  static HWY_INLINE void store(Stored s, uint8_t* p) { store_unaligned(StoredTag(), s, p); }
  static HWY_INLINE void widen(Stored s, Vector* v) {
    const auto pairs = hn::BitCast(Unsigned(), s);
    v[0] = hn::BitCast(Tag(), hn::ShiftLeft<16>(pairs));
    v[1] = hn::BitCast(Tag(), hn::And(pairs, hn::Set(Unsigned(), 0xffff0000u)));
  }
  static HWY_INLINE Stored narrow(const Vector* v) { return joined(code(v[0]), code(v[1])); }
  static HWY_INLINE Stored narrow_numbers(const Vector* v) { return joined(rounded(v[0]), rounded(v[1])); }
  // The upper halves of both.
  static HWY_INLINE Stored joined(Codes even, Codes odd) {
    return hn::OddEven(hn::BitCast(StoredTag(), odd), hn::BitCast(StoredTag(), hn::ShiftRight<16>(even)));
  }
#endif
  static HWY_INLINE Vector scalar(uint64_t bits) {
    return hn::Set(Tag(), tutti::widen(kBfloat16, static_cast<uint32_t>(bits)));
  }
  // The code in the upper half; what is below it is of no use.
  static HWY_INLINE Codes rounded(Vector v) {
    const auto bits = hn::BitCast(Unsigned(), v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(Unsigned(), 1));
    return bits + odd + hn::Set(Unsigned(), 0x7fff);
  }
  static HWY_INLINE Codes code(Vector v) {
    return hn::IfThenElse(hn::RebindMask(Unsigned(), hn::IsNaN(v)),
                          hn::Set(Unsigned(), kBfloat16.quiet_nan() << 16), rounded(v));
  }
};

// A float8e5m2 is the upper byte of a float16.
struct Float8e5m2Codec : WidenedFloat<uint8_t> {
  using HalfTag = hn::Rebind<uint16_t, Tag>;
  static HWY_INLINE void widen(Stored s, Vector* v) {
    v[0] = widen_float16(hn::ShiftLeft<8>(hn::PromoteTo(HalfTag(), s)));
  }
  static HWY_INLINE Vector scalar(uint64_t bits) {
    return hn::Set(Tag(), tutti::widen(kFloat8e5m2, static_cast<uint32_t>(bits)));
  }
  static HWY_INLINE Stored narrow(const Vector* v) { return packed(encode<kFloat8e5m2>(v[0])); }
  static HWY_INLINE Stored narrow_numbers(const Vector* v) { return narrow(v); }
};

// A float8e4m3's exponent and mantissa, taken for a float16's, stand for 2^-8 times the value: its bias is 8 less.
struct Float8e4m3Codec : WidenedFloat<uint8_t> {
  using HalfTag = hn::Rebind<uint16_t, Tag>;
  static HWY_INLINE void widen(Stored s, Vector* v) {
    const auto byte = hn::PromoteTo(HalfTag(), s);
    const auto magnitude = hn::And(byte, hn::Set(HalfTag(), 0x7f));
    const auto sign = hn::ShiftLeft<8>(hn::And(byte, hn::Set(HalfTag(), 0x80)));
    const auto finite = hn::Or(hn::ShiftLeft<7>(magnitude), sign);
    const auto is_nan = hn::Eq(magnitude, hn::Set(HalfTag(), 0x7f));
    v[0] = widen_float16(hn::IfThenElse(is_nan, hn::Set(HalfTag(), 0x7e00), finite)) * hn::Set(Tag(), 256.0f);
  }
  static HWY_INLINE Vector scalar(uint64_t bits) {
    return hn::Set(Tag(), tutti::widen(kFloat8e4m3, static_cast<uint32_t>(bits)));
  }
  static HWY_INLINE Stored narrow(const Vector* v) { return packed(encode<kFloat8e4m3>(v[0])); }
  static HWY_INLINE Stored narrow_numbers(const Vector* v) { return narrow(v); }
};

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_REDUCE_CODEC_INL_H_
