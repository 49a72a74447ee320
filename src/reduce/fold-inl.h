// The fold loops, compiled once per instruction set. fold.cc and only fold.cc includes this.
//
// One general loop per type and operation, and one more for each common number of operands. A trip folds a group of
// vectors: the accumulators stay in registers while the operands are read one after the other, so every byte is loaded
// once and stored once per result. What is left over at the end makes one more trip through a buffer.
#if defined(TUTTI_REDUCE_FOLD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_FOLD_INL_H_
#undef TUTTI_REDUCE_FOLD_INL_H_
#else
#define TUTTI_REDUCE_FOLD_INL_H_
#endif

#include "hwy/highway.h"
#include "reduce/codec-inl.h"
#include "reduce/fold_call.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct Sum {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return a + b;
  }
};

#if HWY_TARGET == HWY_SCALAR
template <class D, class V>
HWY_INLINE V multiply(D, V a, V b) {
  return a * b;
}
#else
template <class D, class V>
HWY_INLINE V multiply(D d, V a, V b) {
  if constexpr (sizeof(hn::TFromD<D>) > 1) {
    return a * b;
  } else {
    // No processor multiplies bytes: the even and the odd ones are multiplied as 16-bit integers.
    const hn::Repartition<uint16_t, D> d16;
    const auto a16 = hn::BitCast(d16, a), b16 = hn::BitCast(d16, b);
    const auto even = hn::And(a16 * b16, hn::Set(d16, 0xff));
    const auto odd = hn::ShiftLeft<8>(hn::ShiftRight<8>(a16) * hn::ShiftRight<8>(b16));
    return hn::BitCast(d, hn::Or(even, odd));
  }
}
#endif

struct Prod {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V a, V b) {
    return multiply(d, a, b);
  }
};

// max and min of floats: a number beats a NaN, and among equals only zeros differ, in the sign bit.
struct Max {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    if constexpr (!hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::Max(a, b);
    } else {
      const V greater = hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(b)), a, b);
      return hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), greater);
    }
  }
};

struct Min {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    if constexpr (!hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::Min(a, b);
    } else {
      const V less = hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(b)), a, b);
      return hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), less);
    }
  }
};

// A group is what one trip of the loop folds: four vectors, which of 64 bytes are two cache-line pairs per operand, and
// leave registers for the constants of the codecs. The one-lane fallback gains nothing from more than one.
constexpr size_t kGroupVectors = HWY_TARGET == HWY_SCALAR ? 1 : 4;
template <class Codec>
constexpr size_t kGroupLanes = kGroupVectors* Codec::kLanes;

template <class Codec>
struct Group {
  static constexpr size_t kStored = kGroupVectors / Codec::kParts;
  static constexpr size_t kStoredBytes = Codec::kParts * Codec::kLanes * Codec::kElementBytes;
  static constexpr size_t kBytes = kStored * kStoredBytes;
  typename Codec::Vector v[kGroupVectors];

  HWY_INLINE void load(const uint8_t* p) {
    for (size_t u = 0; u < kStored; ++u) Codec::widen(Codec::load(p + u * kStoredBytes), v + u * Codec::kParts);
  }
  // False only where there may be a NaN: there is one where the sum is none; infinities may cancel, too.
  HWY_INLINE bool all_numbers() const {
    auto sum = v[0];
    for (size_t u = 1; u < kGroupVectors; ++u) sum = sum + v[u];
    return hn::AllFalse(typename Codec::Tag(), hn::IsNaN(sum));
  }
  template <class Op>
  HWY_INLINE void combine(const Group& other) {
    for (size_t u = 0; u < kGroupVectors; ++u) v[u] = Op::apply(typename Codec::Tag(), v[u], other.v[u]);
  }
  HWY_INLINE void scale(uint64_t scalar_bits) {
    const auto factor = Codec::scalar(scalar_bits);
    for (size_t u = 0; u < kGroupVectors; ++u) v[u] = multiply(typename Codec::Tag(), factor, v[u]);
  }
  HWY_INLINE void divide(const FoldCall& call) {
    for (size_t u = 0; u < kGroupVectors; ++u) v[u] = Codec::divide(v[u], call);
  }
};

// Vectors rounded to the type, to be stored once per result.
template <class Codec>
struct RoundedGroup {
  static constexpr size_t kStored = Group<Codec>::kStored;
  typename Codec::Stored s[kStored];

  explicit HWY_INLINE RoundedGroup(const Group<Codec>& group) {
    // One look at the whole group costs less than taking care in every vector.
    if constexpr (std::is_floating_point_v<hn::TFromD<typename Codec::Tag>>) {
      if (HWY_UNLIKELY(!group.all_numbers())) {
        for (size_t u = 0; u < kStored; ++u) s[u] = Codec::narrow(group.v + u * Codec::kParts);
        return;
      }
    }
    for (size_t u = 0; u < kStored; ++u) s[u] = Codec::narrow_numbers(group.v + u * Codec::kParts);
  }
  HWY_INLINE void store(uint8_t* p) const {
    for (size_t u = 0; u < kStored; ++u) Codec::store(s[u], p + u * Group<Codec>::kStoredBytes);
  }
  HWY_INLINE void stream(uint8_t* p) const {
    for (size_t u = 0; u < kStored; ++u)
      stream_aligned(typename Codec::StoredTag(), s[u], p + u * Group<Codec>::kStoredBytes);
  }
};

// The whole groups of a plain call with kOperands operands; returns the number of elements done.
template <class Codec, class Op, size_t kOperands>
HWY_NOINLINE size_t fold_plain(const FoldCall& call) {
  // Local copies stay in registers; the stores of bytes might alias the caller's arrays of pointers.
  const uint8_t* operands[kOperands];
  for (size_t j = 0; j < kOperands; ++j) operands[j] = call.operands[j];
  uint8_t* const first_result = call.results[0];
  const size_t result_count = call.result_count;
  const size_t end = call.count / kGroupLanes<Codec> * Group<Codec>::kBytes;
  for (size_t offset = 0; offset < end; offset += Group<Codec>::kBytes) {
    Group<Codec> sum, next;
    sum.load(operands[0] + offset);
    for (size_t j = 1; j < kOperands; ++j) {
      next.load(operands[j] + offset);
      sum.template combine<Op>(next);
    }
    const RoundedGroup<Codec> rounded(sum);
    rounded.store(first_result + offset);
    for (size_t r = 1; r < result_count; ++r) rounded.store(call.results[r] + offset);
  }
  return end / Codec::kElementBytes;
}

// Operand j at an offset, of which `left` bytes exist, by way of the buffer when that is less than a group.
template <class Codec>
HWY_INLINE Group<Codec> load_operand(const FoldCall& call, size_t j, size_t offset, size_t left, uint8_t* buffer) {
  const uint8_t* operand = call.operands[j] + offset;
  if (left < Group<Codec>::kBytes) operand = static_cast<const uint8_t*>(std::memcpy(buffer, operand, left));
  Group<Codec> group;
  group.load(operand);
  if (j == call.scaled_operand) group.scale(call.scalar_bits);
  return group;
}

// Any call, from element `done` to the end. The last group, if not whole, is folded in a buffer of one group.
template <class Codec, class Op>
HWY_NOINLINE void fold_any(const FoldCall& call, size_t done) {
  constexpr size_t kGroupBytes = Group<Codec>::kBytes;
  HWY_ALIGN uint8_t buffer[kGroupBytes] = {};
  const size_t end = call.count * Codec::kElementBytes;
  for (size_t offset = done * Codec::kElementBytes; offset < end; offset += kGroupBytes) {
    const size_t left = end - offset;
    auto sum = load_operand<Codec>(call, 0, offset, left, buffer);
    for (size_t j = 1; j < call.operand_count; ++j) {
      sum.template combine<Op>(load_operand<Codec>(call, j, offset, left, buffer));
    }
    if (call.divisor != 0) sum.divide(call);
    const RoundedGroup<Codec> rounded(sum);
    if (left < kGroupBytes) rounded.store(buffer);
    for (size_t r = 0; r < call.result_count; ++r) {
      if (left < kGroupBytes) {
        std::memcpy(call.results[r] + offset, buffer, left);
      } else {
        rounded.store(call.results[r] + offset);
      }
    }
  }
}

// The whole groups of any call with streamed results; returns the number of elements done. Memory is what it waits for,
// so that a loop for each number of operands would gain nothing.
template <class Codec, class Op>
HWY_NOINLINE size_t fold_past_cache(const FoldCall& call) {
  const size_t end = call.count / kGroupLanes<Codec> * Group<Codec>::kBytes;
  for (size_t offset = 0; offset < end; offset += Group<Codec>::kBytes) {
    auto sum = load_operand<Codec>(call, 0, offset, SIZE_MAX, nullptr);
    for (size_t j = 1; j < call.operand_count; ++j)
      sum.template combine<Op>(load_operand<Codec>(call, j, offset, SIZE_MAX, nullptr));
    if (call.divisor != 0) sum.divide(call);
    const RoundedGroup<Codec> rounded(sum);
    for (size_t r = 0; r < call.result_count; ++r) rounded.store(call.results[r] + offset);
    for (size_t r = 0; r < call.streamed_count; ++r) rounded.stream(call.streamed[r] + offset);
  }
  return end / Codec::kElementBytes;
}

// Code of their own for two operands, what rings fold, and for sums of three and four, what trees and small all-to-alls
// fold: in the first-level cache it is half again as fast as the general loop (310 against 190 GB/s for float32 with
// AVX-512), beyond it hardly. Every such loop costs 1 KB of code per type and instruction set, and its compilation.
template <class Codec, class Op>
size_t fold_with(const FoldCall& call) {
  if (call.streamed_count > 0) {
    if constexpr (can_stream<typename Codec::StoredTag>()) return fold_past_cache<Codec, Op>(call);
    return 0;
  }
  size_t done = 0;
  if constexpr (HWY_TARGET != HWY_SCALAR) {
    constexpr bool kIsSum = std::is_same_v<Op, Sum>;
    const size_t plain_operands = is_plain(call) ? call.operand_count : 0;
    if (plain_operands == 2) done = fold_plain<Codec, Op, 2>(call);
    if constexpr (kIsSum) {
      if (plain_operands == 3) done = fold_plain<Codec, Op, 3>(call);
      if (plain_operands == 4) done = fold_plain<Codec, Op, 4>(call);
    }
  }
  if (done < call.count) fold_any<Codec, Op>(call, done);
  return call.count;
}

template <class Codec>
size_t fold_floats(const FoldCall& call) {
  switch (call.op) {
    case ReduceOp::prod:
      return fold_with<Codec, Prod>(call);
    case ReduceOp::max:
      return fold_with<Codec, Max>(call);
    case ReduceOp::min:
      return fold_with<Codec, Min>(call);
    default:
      return fold_with<Codec, Sum>(call);
  }
}

// Sums and products modulo 2^bits are the same for signed and unsigned integers.
template <class T>
size_t fold_integers(const FoldCall& call) {
  using Modular = PlainCodec<std::make_unsigned_t<T>>;
  switch (call.op) {
    case ReduceOp::prod:
      return fold_with<Modular, Prod>(call);
    case ReduceOp::max:
      return fold_with<PlainCodec<T>, Max>(call);
    case ReduceOp::min:
      return fold_with<PlainCodec<T>, Min>(call);
    default:
      return fold_with<Modular, Sum>(call);
  }
}

// Returns how many elements, from the first on, are done: all, unless there are streamed results.
size_t fold_kernel(const FoldCall& call) {
  switch (call.type) {
    case DataType::int8:
      return fold_integers<int8_t>(call);
    case DataType::uint8:
      return fold_integers<uint8_t>(call);
    case DataType::int32:
      return fold_integers<int32_t>(call);
    case DataType::uint32:
      return fold_integers<uint32_t>(call);
    case DataType::int64:
      return fold_integers<int64_t>(call);
    case DataType::uint64:
      return fold_integers<uint64_t>(call);
    case DataType::float16:
      return fold_floats<Float16Codec>(call);
    case DataType::float32:
      return fold_floats<PlainCodec<float>>(call);
    case DataType::float64:
      return fold_floats<PlainCodec<double>>(call);
    case DataType::bfloat16:
      return fold_floats<Bfloat16Codec>(call);
    case DataType::float8e4m3:
      return fold_floats<Float8e4m3Codec>(call);
    case DataType::float8e5m2:
      return fold_floats<Float8e5m2Codec>(call);
  }
  return 0;
}

std::string_view target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TUTTI_REDUCE_FOLD_INL_H_
