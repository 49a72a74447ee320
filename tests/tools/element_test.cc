// The tools' conversions against the library's, which were written apart from them.
#include "perf/element.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reduce/fold.h"

namespace tutti::perf {
namespace {

constexpr tuttiDataType_t kNarrow[] = {tuttiFloat16, tuttiBfloat16, tuttiFloat8e4m3, tuttiFloat8e5m2};

TEST(Element, EveryNarrowFloatHasTheLibrarysValue) {
  for (const tuttiDataType_t type : kNarrow) {
    for (uint64_t bits = 0; bits < 1ULL << (8 * type_bytes(type)); ++bits) {
      const double ours = float_to_double(type, bits), theirs = element_to_double(static_cast<DataType>(type), &bits);
      if (std::isnan(theirs)) {
        EXPECT_TRUE(std::isnan(ours)) << type_name(type) << " " << bits;
      } else {
        ASSERT_EQ(ours, theirs) << type_name(type) << " " << bits;
      }
      if (is_finite(type, bits)) {
        ASSERT_EQ(float_from_double(type, ours), bits) << type_name(type);
      }
      ASSERT_EQ(is_finite(type, bits), std::isfinite(theirs)) << type_name(type) << " " << bits;
    }
  }
}

TEST(Element, RoundsLikeTheLibrary) {
  for (const tuttiDataType_t type : kNarrow) {
    for (int sum = -300; sum <= 300; ++sum) {
      for (const int divisor : {3, 7, 8, 11, 64, 1000}) {
        const double quotient = static_cast<double>(sum) / divisor;
        uint64_t theirs = 0;
        element_from_double(static_cast<DataType>(type), quotient, &theirs);
        ASSERT_EQ(float_from_double(type, quotient), theirs) << type_name(type) << " " << quotient;
      }
    }
  }
}

TEST(Element, NamesAreThoseOfNcclTests) {
  for (const char* name : {"int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16",
                           "f8e4m3", "f8e5m2"}) {
    ASSERT_TRUE(parse_type(name)) << name;
    EXPECT_EQ(type_name(*parse_type(name)), name);
  }
  for (const char* name : {"sum", "prod", "max", "min", "avg", "mulsum"}) {
    ASSERT_TRUE(parse_operation(name)) << name;
    EXPECT_EQ(operation_name(*parse_operation(name)), name);
  }
  EXPECT_FALSE(parse_type("float16"));
  EXPECT_FALSE(parse_operation("none"));
}

}  // namespace
}  // namespace tutti::perf
