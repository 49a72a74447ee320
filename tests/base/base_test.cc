// The small parts that everything else stands on.
#include <fcntl.h>
#include <sys/resource.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <set>
#include <type_traits>

#include "base/clock.h"
#include "base/fd.h"
#include "base/host.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/strong_int.h"
#include "base/types.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

TEST(StatusTest, SuccessAndFailure) {
  const Status good;
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(good.code(), tuttiSuccess);
  EXPECT_TRUE(good.within("anything").ok());
  const Status bad = invalid_argument("count is {}", 3);
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.code(), tuttiInvalidArgument);
  EXPECT_EQ(bad.message(), "count is 3");
  EXPECT_EQ(bad.within("outer").message(), "outer: count is 3");
  EXPECT_EQ(bad.within("outer").code(), tuttiInvalidArgument);
}

TEST(StatusTest, ASystemErrorNamesCallReasonAndAdvice) {
  const std::string message(system_error("open '/x'", ENOENT, "make it").message());
  EXPECT_EQ(message, "open '/x': No such file or directory (ENOENT); make it");
  EXPECT_THAT(std::string(system_error("f", 123456).message()), HasSubstr("123456"));
}

TEST(ResultTest, HoldsAValueOrAReason) {
  const Result<int> good(5);
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(good.value(), 5);
  EXPECT_TRUE(good.status().ok());
  const Result<int> bad = invalid_usage("no");
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().code(), tuttiInvalidUsage);
  EXPECT_EQ(Result<int>(Status()).status().code(), tuttiInternalError) << "success is not a reason for having no value";
}

Status try_status(const Status& status, int& reached) {
  TUTTI_TRY(status);
  ++reached;
  return {};
}
Result<std::unique_ptr<int>> try_assign(Result<std::unique_ptr<int>> result) {
  TUTTI_TRY_ASSIGN(std::unique_ptr<int> value, std::move(result));
  ++*value;
  return value;
}

TEST(Try, PassesFailuresOnAndGoesOnOtherwise) {
  int reached = 0;
  EXPECT_EQ(try_status(invalid_usage("stop"), reached).message(), "stop");
  EXPECT_EQ(reached, 0);
  EXPECT_TRUE(try_status({}, reached).ok());
  EXPECT_EQ(reached, 1);
  EXPECT_EQ(*try_assign(std::make_unique<int>(1)).value(), 2);
  EXPECT_EQ(try_assign(Status(tuttiTimeout, "late")).status().code(), tuttiTimeout);
}

TEST(StrongIntTest, IsMadeExplicitlyAndReadFreely) {
  static_assert(!std::is_convertible_v<uint32_t, Rank>);
  static_assert(!std::is_convertible_v<ChunkId, Rank>, "kinds do not mix");
  static_assert(std::is_convertible_v<Rank, uint32_t>);
  Rank rank{3};
  EXPECT_EQ(Rank{(rank + 1) % 4}, 0u);
  EXPECT_EQ(++rank, 4u);
  EXPECT_EQ(Rank(), 0u);
  EXPECT_EQ(std::hash<Rank>()(Rank{7}), std::hash<uint32_t>()(7));
}

TEST(RngTest, RepeatsFromASeedAndStaysInBounds) {
  Rng a(42), b(42), c(43);
  EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(a.next(), c.next());
  // The first output of the published generator for seed 0.
  EXPECT_EQ(Rng(0).next(), 0xe220a8397b1dcdafULL);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(a.below(5));
  EXPECT_EQ(seen, (std::set<uint64_t>{0, 1, 2, 3, 4}));
}

TEST(FdTest, ClosesWhatItOwnsAndNothingElse) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    Fd reader(ends[0]);
    Fd moved = std::move(reader);
    EXPECT_FALSE(reader.valid());
    EXPECT_EQ(moved.get(), ends[0]);
  }
  EXPECT_EQ(::fcntl(ends[0], F_GETFD), -1);
  EXPECT_EQ(Fd(ends[1]).release(), ends[1]);
  EXPECT_NE(::fcntl(ends[1], F_GETFD), -1);
  ::close(ends[1]);
}

TEST(HostTest, HasANameAndAnIdentity) {
  EXPECT_FALSE(host_name().empty());
  const std::string identity = host_identity().value();
  EXPECT_EQ(identity, host_identity().value());
  EXPECT_EQ(std::count(identity.begin(), identity.end(), '/'), 2) << identity;
}

// Or ranks of one host would take each other for strangers.
TEST(HostTest, HasNoIdentityRatherThanAWrongOne) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Result<std::string> identity = host_identity();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(identity.status().code(), tuttiSystemError);
  EXPECT_NE(identity.status().message().find("ulimit -n"), std::string_view::npos);
}

TEST(ClockTest, NeverGoesBack) {
  Nanoseconds last = steady_now();
  for (int i = 0; i < 1000; ++i) {
    const Nanoseconds now = steady_now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(TypesTest, NamesReadBack) {
  for (int i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    EXPECT_EQ(parse_collective(name_of(collective)), collective);
  }
  for (int i = 0; i < kDataTypeCount; ++i) {
    const auto type = static_cast<DataType>(i);
    EXPECT_EQ(parse_data_type(name_of(type)), type);
  }
  for (int i = 0; i < kReduceOpCount; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    EXPECT_EQ(parse_reduce_op(name_of(op)), op);
  }
  EXPECT_EQ(parse_collective("AllReduce"), Collective::all_reduce);
  EXPECT_EQ(parse_collective("allreduc"), std::nullopt);
  EXPECT_EQ(size_of(DataType::float64), 8u);
  EXPECT_EQ(size_of(DataType::bfloat16), 2u);
}

}  // namespace
}  // namespace tutti
