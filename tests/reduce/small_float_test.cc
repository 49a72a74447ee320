// The conversions of 16- and 8-bit floats, for every bit pattern and around every rounding boundary, against a table of
// values made by ldexp and a search in it.
#include "reduce/small_float.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "reduce/fold.h"

namespace tutti {
namespace {

struct Format {
  const char* name;
  SmallFloat format;
  DataType type;
  double largest, smallest;  // from the specifications
};

const Format kFormats[] = {
    {"float16", kFloat16, DataType::float16, 65504, 0x1p-24},
    {"bfloat16", kBfloat16, DataType::bfloat16, 0x1.fep127, 0x1p-133},
    {"float8e4m3", kFloat8e4m3, DataType::float8e4m3, 448, 0x1p-9},
    {"float8e5m2", kFloat8e5m2, DataType::float8e5m2, 57344, 0x1p-16},
};

constexpr float kInfinityFloat = std::numeric_limits<float>::infinity();

class SmallFloats : public testing::TestWithParam<Format> {
 protected:
  const SmallFloat& format() const { return GetParam().format; }
  uint32_t sign() const { return 1u << format().sign_shift(); }

  // values()[code] for the finite codes >= 0, ascending.
  std::vector<double> values() const {
    std::vector<double> values;
    const int mantissas = 1 << format().mantissa_bits;
    for (int exponent = 0;; ++exponent)
      for (int mantissa = 0; mantissa < mantissas; ++mantissa) {
        const double value =
            exponent == 0 ? std::ldexp(mantissa, 1 - format().bias() - format().mantissa_bits)
                          : std::ldexp(mantissas + mantissa, exponent - format().bias() - format().mantissa_bits);
        if (value > GetParam().largest) return values;
        values.push_back(value);
      }
  }

  // The code nearest to a magnitude, found by comparing distances.
  uint32_t nearest(const std::vector<double>& values, double magnitude) const {
    const size_t above =
        static_cast<size_t>(std::lower_bound(values.begin(), values.end(), magnitude) - values.begin());
    if (above == 0) return 0;
    // What would follow the largest value, if the format went on.
    const double step = values.back() - values[values.size() - 2];
    const double upper = above == values.size() ? values.back() + step : values[above];
    const double from_below = magnitude - values[above - 1], to_above = upper - magnitude;
    const bool up = from_below > to_above || (from_below == to_above && above % 2 == 0);
    const auto code = static_cast<uint32_t>(up ? above : above - 1);
    return code == values.size() && !format().has_infinity ? code - 1 : code;
  }
};

TEST_P(SmallFloats, TableEndsWhereTheSpecificationSays) {
  const std::vector<double> table = values();
  EXPECT_EQ(table.back(), GetParam().largest);
  EXPECT_EQ(table[1], GetParam().smallest);
  EXPECT_EQ(format().overflow(), format().has_infinity ? table.size() : table.size() - 1);
}

TEST_P(SmallFloats, EveryPatternRoundTrips) {
  const std::vector<double> table = values();
  for (uint32_t code = 0; code < sign(); ++code) {
    for (uint32_t bits : {code, code | sign()}) {
      const float value = widen(format(), bits);
      if (code < table.size()) {
        EXPECT_EQ(std::abs(static_cast<double>(value)), table[code]) << bits;
        EXPECT_EQ(std::signbit(value), bits != code);
        EXPECT_EQ(narrow(format(), value), bits);
      } else if (code == format().infinity() && format().has_infinity) {
        EXPECT_TRUE(std::isinf(value));
        EXPECT_EQ(std::signbit(value), bits != code);
        EXPECT_EQ(narrow(format(), value), bits);
      } else {
        EXPECT_EQ(std::bit_cast<uint32_t>(value), 0x7fc00000u) << bits;
        EXPECT_EQ(narrow(format(), value), format().quiet_nan());
      }
      double as_double = element_to_double(GetParam().type, &bits);
      EXPECT_TRUE(as_double == value || (std::isnan(as_double) && std::isnan(value))) << bits;
    }
  }
}

TEST_P(SmallFloats, RoundsToNearestEvenAroundEveryBoundary) {
  const std::vector<double> table = values();
  const double infinity = std::numeric_limits<double>::infinity();
  for (size_t code = 0; code < table.size(); ++code) {
    const double next = code + 1 < table.size() ? table[code + 1] : table[code] + (table[code] - table[code - 1]);
    const double middle = (table[code] + next) / 2;
    for (double centre : {table[code], middle})
      for (double value : {centre, std::nextafter(centre, 0), std::nextafter(centre, infinity),
                           static_cast<double>(std::nextafterf(static_cast<float>(centre), 0)),
                           static_cast<double>(std::nextafterf(static_cast<float>(centre), kInfinityFloat))}) {
        ASSERT_EQ(narrow(format(), value), nearest(table, value)) << value;
        ASSERT_EQ(narrow(format(), -value), nearest(table, value) | sign()) << value;
      }
  }
}

TEST_P(SmallFloats, RoundsRandomFloatsToNearestEven) {
  const std::vector<double> table = values();
  Rng rng(1);
  for (int i = 0; i < 200'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(rng.next()));
    if (!std::isfinite(value) || std::abs(value) > 2 * table.back()) continue;
    const uint32_t expected = nearest(table, std::abs(static_cast<double>(value))) | (std::signbit(value) ? sign() : 0);
    ASSERT_EQ(narrow(format(), value), expected) << value;
  }
}

TEST_P(SmallFloats, WhatDoesNotFit) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (double value : {infinity, 1e300, 0x1p1000, GetParam().largest * 2}) {
    EXPECT_EQ(narrow(format(), value), format().overflow());
    EXPECT_EQ(narrow(format(), -value), format().overflow() | sign());
  }
  for (double value : {0.0, 1e-300, 0x1p-1074, GetParam().smallest / 2, GetParam().smallest / 3}) {
    EXPECT_EQ(narrow(format(), value), 0u);
    EXPECT_EQ(narrow(format(), -value), sign());
  }
  EXPECT_EQ(narrow(format(), -std::numeric_limits<double>::quiet_NaN()), format().quiet_nan());
}

INSTANTIATE_TEST_SUITE_P(Formats, SmallFloats, testing::ValuesIn(kFormats),
                         [](const auto& test) { return std::string(test.param.name); });

static_assert(narrow(kFloat16, 1.0) == 0x3c00 && widen(kFloat16, 0x3c00) == 1.0f, "usable in constant expressions");

TEST(Elements, FromDoubleRoundsOnceAndClamps) {
  const auto bits = [](DataType type, double value) {
    uint64_t element = 0;
    element_from_double(type, value, &element);
    return element;
  };
  // 1 + 2^-11 + 2^-30: above the middle for float16, but exactly at it after a detour through float32.
  EXPECT_EQ(bits(DataType::float16, 1 + 0x1p-11 + 0x1p-30), 0x3c01u);
  EXPECT_EQ(bits(DataType::float32, 0.1), std::bit_cast<uint32_t>(0.1f));
  EXPECT_EQ(bits(DataType::float64, 0.1), std::bit_cast<uint64_t>(0.1));
  EXPECT_EQ(bits(DataType::int8, 2.5), 2u);
  EXPECT_EQ(bits(DataType::int8, -3.5), 0xfcu);
  EXPECT_EQ(bits(DataType::int8, 1000), 0x7fu);
  EXPECT_EQ(bits(DataType::int8, -1000), 0x80u);
  EXPECT_EQ(bits(DataType::uint8, -1), 0u);
  EXPECT_EQ(bits(DataType::uint8, 255.4), 0xffu);
  EXPECT_EQ(bits(DataType::int64, 0x1p63), 0x7fffffffffffffffu);
  EXPECT_EQ(bits(DataType::int64, -0x1p63), 0x8000000000000000u);
  EXPECT_EQ(bits(DataType::uint64, 0x1p64), ~0ULL);
  EXPECT_EQ(bits(DataType::uint64, 0x1p63), 0x8000000000000000u);
  EXPECT_EQ(bits(DataType::uint32, std::numeric_limits<double>::quiet_NaN()), 0u);
}

TEST(Elements, ToDoubleIsExact) {
  const int8_t minus = -7;
  EXPECT_EQ(element_to_double(DataType::int8, &minus), -7);
  const uint64_t large = 1ULL << 63;
  EXPECT_EQ(element_to_double(DataType::uint64, &large), 0x1p63);
  EXPECT_EQ(element_to_double(DataType::int64, &large), -0x1p63);
  const float third = 1.0f / 3;
  EXPECT_EQ(element_to_double(DataType::float32, &third), static_cast<double>(third));
}

}  // namespace
}  // namespace tutti
