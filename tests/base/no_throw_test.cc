#include "base/no_throw.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace tutti {
namespace {

TEST(WithoutExceptions, PassesAStatusOn) {
  EXPECT_TRUE(without_exceptions([] { return Status(); }).ok());
  EXPECT_EQ(without_exceptions([] { return Status(tuttiTimeout, "late"); }).message(), "late");
}

TEST(WithoutExceptions, SaysWhatWasThrown) {
  const Status memory = without_exceptions([]() -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(memory.code(), tuttiSystemError);
  EXPECT_EQ(memory.message(), "out of memory");
  const Status other = without_exceptions([]() -> Status { throw std::length_error("too long"); });
  EXPECT_EQ(other.code(), tuttiInternalError);
  EXPECT_EQ(other.message(), "too long");
}

}  // namespace
}  // namespace tutti
