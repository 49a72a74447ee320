// Facts worked out by hand. They hold for the kernels and for the reference, which therefore cannot share a mistake.
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <limits>

#include "fold_inputs.h"

namespace tutti {
namespace {

using Elements = std::vector<uint64_t>;  // the bits of one element per operand

struct Options {
  uint32_t nranks = 1;
  uint64_t scalar = 0;
  int own = kNoOwnOperand;
};

using Folder =
    std::function<void(const FoldSpec&, std::span<const void* const>, int, bool, std::span<void* const>, size_t)>;

// One element, repeated so that it is folded both in whole vectors and in what is left over; all results must agree.
uint64_t fold_one(const Folder& folder, DataType type, ReduceOp op, const Elements& elements, const Options& options) {
  constexpr size_t kCount = 301;
  const size_t bytes = size_of(type);
  std::vector<Buffer> buffers;
  std::vector<const void*> operands;
  for (uint64_t element : elements) {
    buffers.emplace_back(kCount * bytes, 0);
    for (size_t i = 0; i < kCount; ++i) std::memcpy(buffers.back().data() + i * bytes, &element, bytes);
    operands.push_back(buffers.back().data());
  }
  const Buffer result(kCount * bytes, 0);
  void* const results[] = {result.data()};
  folder(FoldSpec{type, op, options.nranks, options.scalar}, operands, options.own, true, results, kCount);
  uint64_t first = 0;
  std::memcpy(&first, result.data(), bytes);
  for (size_t i = 1; i < kCount; ++i)
    EXPECT_EQ(std::memcmp(result.data(), result.data() + i * bytes, bytes), 0) << "element " << i;
  return first;
}

// Whoever folds must find `expected`: the reference and each instruction set.
void expect_fold(DataType type, ReduceOp op, const Elements& elements, uint64_t expected, const Options& options = {}) {
  const auto where = [&](std::string_view who) {
    return std::string(name_of(type)) + " " + std::string(name_of(op)) + " by " + std::string(who);
  };
  EXPECT_EQ(fold_one(fold_reference, type, op, elements, options), expected) << where("the reference");
  for (std::string_view target : fold_targets()) {
    const ForcedTarget forced(target);
    EXPECT_EQ(fold_one(fold, type, op, elements, options), expected) << where(target);
  }
}

uint64_t f32(float value) { return std::bit_cast<uint32_t>(value); }
uint64_t f64(double value) { return std::bit_cast<uint64_t>(value); }
template <class T>
uint64_t integer(T value) {
  return static_cast<std::make_unsigned_t<T>>(value);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(FoldFacts, Bfloat16RoundsTiesToEven) {
  // 1 + 2^-8 lies half way between 1 (0x3f80, even) and 1 + 2^-7 (0x3f81).
  expect_fold(DataType::bfloat16, ReduceOp::sum, {0x3f80, 0x3b80}, 0x3f80);
  // (1 + 2^-7) + 2^-8: half way between 0x3f81 and 0x3f82, which is even.
  expect_fold(DataType::bfloat16, ReduceOp::sum, {0x3f81, 0x3b80}, 0x3f82);
  // A little more than half: 1 + 2^-8 + 2^-15.
  expect_fold(DataType::bfloat16, ReduceOp::sum, {0x3f80, 0x3b80, 0x3800}, 0x3f81);
  // Less than half: 1 + 2^-9.
  expect_fold(DataType::bfloat16, ReduceOp::sum, {0x3f80, 0x3b00}, 0x3f80);
  // The same below zero.
  expect_fold(DataType::bfloat16, ReduceOp::sum, {0xbf81, 0xbb80}, 0xbf82);
}

TEST(FoldFacts, SmallFloatsAreRoundedOnceNotAfterEveryOperand) {
  // 1 + 16 * 2^-9: one addition at a time in bfloat16 stays at 1; in float32 it is 1 + 2^-5 = 0x3f84.
  Elements elements(17, 0x3b00);
  elements[0] = 0x3f80;
  expect_fold(DataType::bfloat16, ReduceOp::sum, elements, 0x3f84);
  // 2048 + 1 is 2048 in float16, so one at a time 2048 + 1 + 1 is too; once, it is 2050 = 0x6801.
  expect_fold(DataType::float16, ReduceOp::sum, {0x6800, 0x3c00, 0x3c00}, 0x6801);
  // 60000 + 60000 - 60000 passes through a value that float16 has not. 60000 = 0x7b53.
  expect_fold(DataType::float16, ReduceOp::sum, {0x7b53, 0x7b53, 0xfb53}, 0x7b53);
}

TEST(FoldFacts, Float16) {
  expect_fold(DataType::float16, ReduceOp::sum, {0x3c00, 0x4000}, 0x4200);   // 1 + 2 = 3
  expect_fold(DataType::float16, ReduceOp::sum, {0x0001, 0x0001}, 0x0002);   // subnormals
  expect_fold(DataType::float16, ReduceOp::sum, {0x03ff, 0x0001}, 0x0400);   // subnormal to normal
  expect_fold(DataType::float16, ReduceOp::prod, {0x0001, 0x3800}, 0x0000);  // 2^-25: half of the smallest, to even
  expect_fold(DataType::float16, ReduceOp::prod, {0x8001, 0x3800}, 0x8000);  // and its sign stays
  expect_fold(DataType::float16, ReduceOp::prod, {0x0003, 0x3800}, 0x0002);  // 1.5 units: to even
  expect_fold(DataType::float16, ReduceOp::sum, {0x7bff, 0x4b80}, 0x7bff);   // 65504 + 15 rounds down
  expect_fold(DataType::float16, ReduceOp::sum, {0x7bff, 0x4c00}, 0x7c00);   // 65504 + 16: half way, to infinity
  expect_fold(DataType::float16, ReduceOp::prod, {0x7bff, 0xfbff}, 0xfc00);
  expect_fold(DataType::float16, ReduceOp::sum, {0x7c00, 0xfc00}, 0x7e00);  // inf - inf
}

TEST(FoldFacts, Float8e4m3HasNoInfinityAndSaturates) {
  expect_fold(DataType::float8e4m3, ReduceOp::sum, {0x38, 0x38}, 0x40);  // 1 + 1 = 2
  expect_fold(DataType::float8e4m3, ReduceOp::sum, {0x7e, 0x7e}, 0x7e);  // 448 + 448: 448
  expect_fold(DataType::float8e4m3, ReduceOp::sum, {0xfe, 0xfe}, 0xfe);
  expect_fold(DataType::float8e4m3, ReduceOp::sum, {0x7e, 0x58}, 0x7e);  // 448 + 16: half way to what is not there
  expect_fold(DataType::float8e4m3, ReduceOp::sum, {0x7e, 0x38, 0xb8}, 0x7e);
  expect_fold(DataType::float8e4m3, ReduceOp::prod, Elements(17, 0x7e), 0x7e);  // 448^17 is infinite in float32
  expect_fold(DataType::float8e4m3, ReduceOp::sum, {0x7f, 0x38}, 0x7f);         // NaN
  expect_fold(DataType::float8e4m3, ReduceOp::sum, {0xff, 0x38}, 0x7f);         // and the result has no sign
  expect_fold(DataType::float8e4m3, ReduceOp::sum, {0x78, 0x00}, 0x78);         // 256, no infinity
  expect_fold(DataType::float8e4m3, ReduceOp::sum, {0x01, 0x07}, 0x08);         // subnormals: 2^-9 + 7 * 2^-9 = 2^-6
  expect_fold(DataType::float8e4m3, ReduceOp::prod, {0x01, 0x30}, 0x00);        // half of the smallest, to even
  expect_fold(DataType::float8e4m3, ReduceOp::prod, {0x03, 0x30}, 0x02);        // 1.5 units, to even
}

TEST(FoldFacts, Float8e5m2OverflowsToInfinity) {
  expect_fold(DataType::float8e5m2, ReduceOp::sum, {0x3c, 0x3c}, 0x40);  // 1 + 1 = 2
  expect_fold(DataType::float8e5m2, ReduceOp::sum, {0x7b, 0x6b}, 0x7b);  // 57344 + 3584 rounds down
  expect_fold(DataType::float8e5m2, ReduceOp::sum, {0x7b, 0x6c}, 0x7c);  // 57344 + 4096: half way, to infinity
  expect_fold(DataType::float8e5m2, ReduceOp::sum, {0xfb, 0xfb}, 0xfc);
  expect_fold(DataType::float8e5m2, ReduceOp::sum, {0x7c, 0xfc}, 0x7e);  // inf - inf
  expect_fold(DataType::float8e5m2, ReduceOp::sum, {0xfd, 0x3c}, 0x7e);  // any NaN becomes this one
  expect_fold(DataType::float8e5m2, ReduceOp::sum, {0x01, 0x03}, 0x04);  // 2^-16 + 3 * 2^-16 = 2^-14
}

TEST(FoldFacts, ANumberBeatsANanAndMinusZeroIsBelowZero) {
  const uint64_t nan = 0xffc01234, signalling = 0x7f800001, minus_zero = 0x80000000, canonical = 0x7fc00000;
  for (ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
    expect_fold(DataType::float32, op, {nan, f32(3)}, f32(3));
    expect_fold(DataType::float32, op, {f32(-kInfinity), nan}, f32(-kInfinity));
    expect_fold(DataType::float32, op, {nan, f32(2), signalling}, f32(2));
    expect_fold(DataType::float32, op, {nan, signalling}, canonical);
    expect_fold(DataType::bfloat16, op, {0xffff, 0x3f80}, 0x3f80);
    expect_fold(DataType::float8e4m3, op, {0x7f, 0x81}, 0x81);
  }
  expect_fold(DataType::float32, ReduceOp::max, {minus_zero, 0}, 0);
  expect_fold(DataType::float32, ReduceOp::max, {0, minus_zero}, 0);
  expect_fold(DataType::float32, ReduceOp::min, {minus_zero, 0}, minus_zero);
  expect_fold(DataType::float32, ReduceOp::min, {0, minus_zero}, minus_zero);
  expect_fold(DataType::float64, ReduceOp::max, {f64(-0.0), f64(0.0), f64(-1)}, f64(0.0));
  expect_fold(DataType::float16, ReduceOp::min, {0x0000, 0x8000, 0x3c00}, 0x8000);
}

TEST(FoldFacts, NanResultsAreQuietPositiveAndWithoutPayload) {
  expect_fold(DataType::float32, ReduceOp::sum, {0xff812345, f32(1)}, 0x7fc00000);
  expect_fold(DataType::float32, ReduceOp::sum, {f32(kInfinity), f32(-kInfinity)}, 0x7fc00000);
  expect_fold(DataType::float32, ReduceOp::prod, {f32(kInfinity), 0}, 0x7fc00000);
  expect_fold(DataType::float64, ReduceOp::sum, {0xfff0000000000001, f64(1)}, 0x7ff8000000000000);
  expect_fold(DataType::bfloat16, ReduceOp::sum, {0xff81, 0x3f80}, 0x7fc0);
  expect_fold(DataType::float16, ReduceOp::sum, {0xfc01, 0x3c00}, 0x7e00);
}

TEST(FoldFacts, OneOperandIsCopiedWithItsPayload) {
  expect_fold(DataType::float32, ReduceOp::sum, {0xff812345}, 0xff812345);
  expect_fold(DataType::float16, ReduceOp::max, {0xfc01}, 0xfc01);
  expect_fold(DataType::float8e5m2, ReduceOp::prod, {0xff}, 0xff);
  expect_fold(DataType::float32, ReduceOp::avg, {0xff812345}, 0x7fc00000);  // but a division is a computation
}

TEST(FoldFacts, SumsGoFromLeftToRight) {
  // (2^24 + 1) + 1 stays at 2^24 in float32; from the right it would be 2^24 + 2.
  expect_fold(DataType::float32, ReduceOp::sum, {f32(0x1p24f), f32(1), f32(1)}, f32(0x1p24f));
  expect_fold(DataType::float32, ReduceOp::sum, {f32(1), f32(1), f32(0x1p24f)}, f32(0x1p24f + 2));
  expect_fold(DataType::float64, ReduceOp::sum, {f64(0x1p53), f64(1), f64(1)}, f64(0x1p53));
}

TEST(FoldFacts, SubnormalFloat32IsNotFlushed) {
  expect_fold(DataType::float32, ReduceOp::sum, {1, 2}, 3);
  expect_fold(DataType::bfloat16, ReduceOp::sum, {1, 2}, 3);
  expect_fold(DataType::float64, ReduceOp::prod, {f64(0x1p-1074), f64(1)}, 1);
}

TEST(FoldFacts, IntegersWrap) {
  expect_fold(DataType::int8, ReduceOp::sum, {100, 100}, integer<int8_t>(-56));
  expect_fold(DataType::uint8, ReduceOp::prod, {16, 17}, 16);
  expect_fold(DataType::int8, ReduceOp::prod, {integer<int8_t>(-3), 50}, integer<int8_t>(106));
  expect_fold(DataType::int32, ReduceOp::sum, {0x7fffffff, 1}, 0x80000000);
  expect_fold(DataType::uint32, ReduceOp::prod, {0x10001, 0x10001}, 0x20001);
  expect_fold(DataType::int64, ReduceOp::prod, {0x100000001, 0x300000002}, 0x500000002);
  expect_fold(DataType::uint64, ReduceOp::prod, {~0ULL, ~0ULL}, 1);
  expect_fold(DataType::int64, ReduceOp::sum, {0x7fffffffffffffff, 1}, 0x8000000000000000);
}

TEST(FoldFacts, IntegersAreComparedWithTheirSign) {
  expect_fold(DataType::int8, ReduceOp::max, {0x80, 0x7f}, 0x7f);
  expect_fold(DataType::uint8, ReduceOp::max, {0x80, 0x7f}, 0x80);
  expect_fold(DataType::int32, ReduceOp::min, {0x80000000, 1}, 0x80000000);
  expect_fold(DataType::uint32, ReduceOp::min, {0x80000000, 1}, 1);
  expect_fold(DataType::int64, ReduceOp::min, {~0ULL, 5}, ~0ULL);
  expect_fold(DataType::uint64, ReduceOp::max, {~0ULL, 5}, ~0ULL);
}

TEST(FoldFacts, AverageOfIntegersTruncatesTowardsZero) {
  const Options by_two{.nranks = 2}, by_three{.nranks = 3};
  expect_fold(DataType::int32, ReduceOp::avg, {3, 4}, 3, by_two);
  expect_fold(DataType::int32, ReduceOp::avg, {integer<int32_t>(-3), integer<int32_t>(-4)}, integer<int32_t>(-3),
              by_two);
  expect_fold(DataType::int8, ReduceOp::avg, {integer<int8_t>(-1), 0, 0}, 0, by_three);
  expect_fold(DataType::int8, ReduceOp::avg, {100, 100}, integer<int8_t>(-28), by_two);  // the sum has wrapped to -56
  expect_fold(DataType::uint8, ReduceOp::avg, {200, 100}, 22, by_two);                   // 300 - 256 = 44
  expect_fold(DataType::uint8, ReduceOp::avg, {200, 5}, 0, {.nranks = 300});  // more ranks than the type holds
  expect_fold(DataType::uint64, ReduceOp::avg, {~0ULL - 1, 0}, ~0ULL / 2, by_two);
  expect_fold(DataType::int64, ReduceOp::avg, {integer<int64_t>(-7), 0}, integer<int64_t>(-3), by_two);
  expect_fold(DataType::uint32, ReduceOp::avg, {0xffffffff, 0}, 0x55555555, by_three);
  expect_fold(DataType::int32, ReduceOp::avg, {0x80000000}, 0x80000000, {.nranks = 1});
}

TEST(FoldFacts, AverageOfFloatsDividesBeforeRounding) {
  expect_fold(DataType::float32, ReduceOp::avg, {f32(1), f32(1)}, f32(2.0f / 3.0f), {.nranks = 3});
  expect_fold(DataType::float64, ReduceOp::avg, {f64(1), f64(0)}, f64(1.0 / 3.0), {.nranks = 3});
  // 65504 + 65504 is beyond float16, half of it is not.
  expect_fold(DataType::float16, ReduceOp::avg, {0x7bff, 0x7bff}, 0x7bff, {.nranks = 2});
  expect_fold(DataType::float8e4m3, ReduceOp::avg, {0x7e, 0x7e}, 0x7e, {.nranks = 2});
}

TEST(FoldFacts, PremulSumScalesTheOwnOperandOnly) {
  expect_fold(DataType::int32, ReduceOp::premul_sum, {10, 20}, 10 + 3 * 20, {.scalar = 3, .own = 1});
  expect_fold(DataType::int32, ReduceOp::premul_sum, {10, 20}, 3 * 10 + 20, {.scalar = 3, .own = 0});
  expect_fold(DataType::int32, ReduceOp::premul_sum, {10, 20}, 30, {.scalar = 3});
  expect_fold(DataType::int32, ReduceOp::premul_sum, {10}, 30, {.scalar = 3, .own = 0});
  expect_fold(DataType::int32, ReduceOp::sum, {10, 20}, 30, {.scalar = 3, .own = 0});  // a sum has no factor
  expect_fold(DataType::uint8, ReduceOp::premul_sum, {100, 1}, 45, {.scalar = 3, .own = 0});
  expect_fold(DataType::float16, ReduceOp::premul_sum, {0x3c00, 0x4000}, 0x4000, {.scalar = 0x3800, .own = 1});
  expect_fold(DataType::bfloat16, ReduceOp::premul_sum, {0x4000}, 0xc000, {.scalar = 0xbf80, .own = 0});
  expect_fold(DataType::float64, ReduceOp::premul_sum, {f64(4), f64(1)}, f64(3), {.scalar = f64(0.5), .own = 0});
}

TEST(FoldFacts, PremulSumRoundsTheProductBeforeTheSum) {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: half way, rounds to 1 + 2^-11. A fused multiply-add would keep the 2^-24.
  const float factor = 1 + 0x1p-12f;
  expect_fold(DataType::float32, ReduceOp::premul_sum, {f32(-(1 + 0x1p-11f)), f32(factor)}, 0,
              {.scalar = f32(factor), .own = 1});
  const double wide = 1 + 0x1p-27;
  expect_fold(DataType::float64, ReduceOp::premul_sum, {f64(-(1 + 0x1p-26)), f64(wide)}, 0,
              {.scalar = f64(wide), .own = 1});
}

}  // namespace
}  // namespace tutti
