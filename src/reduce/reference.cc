// fold_reference and the conversions of single elements: the definition, written to be read.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "reduce/fold.h"
#include "reduce/small_float.h"

namespace tutti {
namespace {

// How elements of a type become values to compute with, and back.
template <class T>
struct Plain {
  using Value = T;
  static constexpr size_t kBytes = sizeof(T);
  static T load(const void* p) {
    T value;
    std::memcpy(&value, p, sizeof(value));
    return value;
  }
  static void store(T value, void* p) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(value)) value = std::numeric_limits<T>::quiet_NaN();
    }
    std::memcpy(p, &value, sizeof(value));
  }
};

template <class Storage, const SmallFloat& kFormat>
struct Small {
  using Value = float;
  static constexpr size_t kBytes = sizeof(Storage);
  static float load(const void* p) { return widen(kFormat, Plain<Storage>::load(p)); }
  static void store(float value, void* p) { Plain<Storage>::store(static_cast<Storage>(narrow(kFormat, value)), p); }
};

// Calls function(codec) with the codec of the type.
template <class Function>
auto with_codec(DataType type, Function function) {
  switch (type) {
    case DataType::int8:
      return function(Plain<int8_t>());
    case DataType::uint8:
      return function(Plain<uint8_t>());
    case DataType::int32:
      return function(Plain<int32_t>());
    case DataType::uint32:
      return function(Plain<uint32_t>());
    case DataType::int64:
      return function(Plain<int64_t>());
    case DataType::uint64:
      return function(Plain<uint64_t>());
    case DataType::float16:
      return function(Small<uint16_t, kFloat16>());
    case DataType::float32:
      return function(Plain<float>());
    case DataType::bfloat16:
      return function(Small<uint16_t, kBfloat16>());
    case DataType::float8e4m3:
      return function(Small<uint8_t, kFloat8e4m3>());
    case DataType::float8e5m2:
      return function(Small<uint8_t, kFloat8e5m2>());
    case DataType::float64:
      break;
  }
  return function(Plain<double>());
}

// Signed overflow is undefined in C++; in 64 unsigned bits, cut to the type, it is arithmetic modulo 2^bits.
template <class T>
T add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
}

template <class T>
T multiply(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a * b;
  } else {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
}

template <class T>
T divide(T value, uint32_t n) {
  if constexpr (std::is_floating_point_v<T>) {
    return value / static_cast<T>(n);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(static_cast<int64_t>(value) / static_cast<int64_t>(n));
  } else {
    return static_cast<T>(static_cast<uint64_t>(value) / n);
  }
}

// Whether `max` (or `min`) prefers b to a.
template <class T>
bool beats(ReduceOp op, T b, T a) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return true;
    if (std::isnan(b)) return false;
    if (a == 0 && b == 0) return op == ReduceOp::max ? std::signbit(a) : std::signbit(b);
  }
  return op == ReduceOp::max ? b > a : b < a;
}

template <class T>
T combine(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::prod:
      return multiply(a, b);
    case ReduceOp::max:
    case ReduceOp::min:
      return beats(op, b, a) ? b : a;
    default:
      return add(a, b);
  }
}

template <class T>
T nearest_integer(double value) {
  // 2^63 and 2^64 are doubles, the largest integers are not: compare before converting.
  constexpr double kBeyond = static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2;
  if (std::isnan(value)) return 0;
  const double rounded = std::nearbyint(value);
  if (rounded >= kBeyond) return std::numeric_limits<T>::max();
  if (rounded <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return static_cast<T>(rounded);
}

template <class Codec>
void reference(Codec codec, const FoldSpec& spec, std::span<const void* const> operands, int own_operand, bool complete,
               std::span<void* const> results, size_t count) {
  const auto scalar = codec.load(&spec.scalar_bits);
  for (size_t i = 0; i < count; ++i) {
    const auto operand = [&](size_t j) {
      const auto value = codec.load(static_cast<const char*>(operands[j]) + i * codec.kBytes);
      return spec.op == ReduceOp::premul_sum && own_operand == static_cast<int>(j) ? multiply(scalar, value) : value;
    };
    auto value = operand(0);
    for (size_t j = 1; j < operands.size(); ++j) value = combine(spec.op, value, operand(j));
    if (spec.op == ReduceOp::avg && complete) value = divide(value, spec.nranks);
    for (void* result : results) codec.store(value, static_cast<char*>(result) + i * codec.kBytes);
  }
}

}  // namespace

void fold_reference(const FoldSpec& spec, std::span<const void* const> operands, int own_operand, bool complete,
                    std::span<void* const> results, size_t count) {
  const bool scales = spec.op == ReduceOp::premul_sum && own_operand != kNoOwnOperand;
  const bool divides = spec.op == ReduceOp::avg && complete;
  if (operands.size() == 1 && !scales && !divides) {
    for (void* result : results)
      if (count > 0) std::memmove(result, operands[0], count * size_of(spec.type));
    return;
  }
  with_codec(spec.type, [&](auto codec) { reference(codec, spec, operands, own_operand, complete, results, count); });
}

double element_to_double(DataType type, const void* element) {
  return with_codec(type, [&](auto codec) { return static_cast<double>(codec.load(element)); });
}

void element_from_double(DataType type, double value, void* element) {
  const auto store_small = [&]<class Storage>(Storage, const SmallFloat& format) {
    Plain<Storage>::store(static_cast<Storage>(narrow(format, value)), element);
  };
  switch (type) {
    // Not by way of float32: that would round twice.
    case DataType::float16:
      return store_small(uint16_t(), kFloat16);
    case DataType::bfloat16:
      return store_small(uint16_t(), kBfloat16);
    case DataType::float8e4m3:
      return store_small(uint8_t(), kFloat8e4m3);
    case DataType::float8e5m2:
      return store_small(uint8_t(), kFloat8e5m2);
    default:
      break;
  }
  with_codec(type, [&](auto codec) {
    using T = typename decltype(codec)::Value;
    if constexpr (std::is_floating_point_v<T>) {
      codec.store(static_cast<T>(value), element);
    } else {
      codec.store(nearest_integer<T>(value), element);
    }
  });
}

}  // namespace tutti
