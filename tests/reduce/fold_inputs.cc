#include "fold_inputs.h"

namespace tutti {
namespace {

struct FloatLayout {
  int exponent_bits, mantissa_bits;
};

std::vector<uint64_t> float_bits(FloatLayout layout) {
  const uint64_t sign = 1ULL << (layout.exponent_bits + layout.mantissa_bits);
  const uint64_t exponent_one = 1ULL << layout.mantissa_bits;
  const uint64_t all_ones = sign - exponent_one;
  const uint64_t one = (exponent_one << (layout.exponent_bits - 1)) - exponent_one;
  const uint64_t magnitudes[] = {0,                 // zero
                                 1,                 // smallest subnormal
                                 exponent_one - 1,  // largest subnormal
                                 exponent_one,      // smallest normal
                                 exponent_one + 1,
                                 one - 1,
                                 one,
                                 one + 1,
                                 one + exponent_one / 2,
                                 all_ones - 1,  // largest finite (float8e4m3: a large one)
                                 all_ones,      // infinity (float8e4m3: 256)
                                 all_ones + 1,  // signalling NaN (float8e4m3: 288)
                                 all_ones + exponent_one / 2,
                                 sign - 2,   // NaN with payload (float8e4m3: 448, its largest)
                                 sign - 1};  // NaN
  std::vector<uint64_t> bits;
  for (uint64_t magnitude : magnitudes) {
    bits.push_back(magnitude);
    bits.push_back(magnitude | sign);
  }
  return bits;
}

std::vector<uint64_t> integer_bits(size_t bytes) {
  const uint64_t top = 1ULL << (8 * bytes - 1);
  return {0, 1, 2, 3, 7, top - 1, top, top + 1, top + (top - 1), top + (top - 2), 1ULL << (4 * bytes)};
}

}  // namespace

std::vector<uint64_t> special_bits(DataType type) {
  switch (type) {
    case DataType::float16:
      return float_bits({5, 10});
    case DataType::bfloat16:
      return float_bits({8, 7});
    case DataType::float32:
      return float_bits({8, 23});
    case DataType::float64:
      return float_bits({11, 52});
    case DataType::float8e4m3:
      return float_bits({4, 3});
    case DataType::float8e5m2:
      return float_bits({5, 2});
    default:
      return integer_bits(size_of(type));
  }
}

void fill(DataType type, Rng& rng, const Buffer& buffer) {
  const std::vector<uint64_t> special = special_bits(type);
  const size_t element_bytes = size_of(type);
  for (size_t offset = 0; offset < buffer.size(); offset += element_bytes) {
    uint64_t bits = rng.next();
    switch (rng.below(3)) {
      case 0:
        bits = special[rng.below(special.size())];
        break;
      case 1:
        element_from_double(type, (static_cast<double>(rng.below(1 << 20)) - (1 << 19)) / (1 << 17), &bits);
        break;
      default:
        break;
    }
    std::memcpy(buffer.data() + offset, &bits, element_bytes);
  }
}

}  // namespace tutti
