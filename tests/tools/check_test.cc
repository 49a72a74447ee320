// A checker is worth what it notices: every kind of memory that a call may spoil is spoilt here.
#include "perf/check.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tutti::perf {
namespace {

constexpr int kRanks = 3;
constexpr size_t kCount = 1000;
constexpr tuttiDataType_t kType = tuttiFloat16;
constexpr size_t kElement = 2;

// An all-gather on rank 1, done by hand.
struct Gathered {
  CheckedCall call;
  Pattern pattern{kType, Operation::none, kRanks, 42};
  Buffer send{kRanks * kCount * kElement}, recv{kRanks * kCount * kElement};

  explicit Gathered(bool in_place) {
    call.job = {1, kRanks, 0, kCount};
    call.type = kType;
    call.window = {.send = kCount, .recv = kRanks * kCount, .in_place_send_stride = kCount};
    for (int q = 0; q < kRanks; ++q)
      call.blocks.push_back({Block::From::rank, static_cast<size_t>(q) * kCount, kCount, q});
    call.in_place = in_place;
    fill(call, pattern, send, recv);
    for (int q = 0; q < kRanks; ++q)
      pattern.input(q, 0, kCount, recv.data() + static_cast<size_t>(q) * kCount * kElement);
  }
  Wrong wrong() { return find_wrong(call, pattern, send, recv); }
};

class Check : public testing::TestWithParam<bool> {};

TEST_P(Check, RightIsRight) {
  Gathered g(GetParam());
  EXPECT_EQ(g.wrong().total(), 0u) << g.wrong().first;
  EXPECT_TRUE(g.wrong().first.empty());
}

TEST_P(Check, FindsEveryWrongElement) {
  Gathered g(GetParam());
  for (const size_t place : {size_t{0}, kCount, kRanks * kCount - 1}) g.recv.data()[place * kElement] ^= std::byte{1};
  EXPECT_EQ(g.wrong().elements, 3u);
  EXPECT_EQ(g.wrong().out_of_bounds, 0u);
  EXPECT_NE(g.wrong().first.find("received element 0 is"), std::string::npos) << g.wrong().first;
}

TEST_P(Check, FindsNothingDone) {
  Gathered g(GetParam());
  fill(g.call, g.pattern, g.send, g.recv);
  // In place, this rank's own block is there already. An element in 65536 is right by chance.
  EXPECT_GE(g.wrong().elements + 10, (GetParam() ? kRanks - 1 : kRanks) * kCount);
}

TEST_P(Check, FindsBlocksInEachOthersPlace) {
  Gathered g(GetParam());
  g.pattern.input(2, 0, kCount, g.recv.data());
  EXPECT_GT(g.wrong().elements, kCount * 99 / 100);
}

TEST_P(Check, FindsDataShiftedByOne) {
  Gathered g(GetParam());
  std::memmove(g.recv.data() + kElement, g.recv.data(), (kRanks * kCount - 1) * kElement);
  EXPECT_GT(g.wrong().elements, kRanks * kCount * 99 / 100);
}

TEST_P(Check, FindsBothGuards) {
  Gathered g(GetParam());
  *(g.recv.data() - 1) ^= std::byte{1};
  g.recv.data()[kRanks * kCount * kElement] ^= std::byte{1};
  *(g.recv.data() - kGuardBytes) ^= std::byte{1};
  EXPECT_EQ(g.wrong().elements, 0u);
  EXPECT_EQ(g.wrong().out_of_bounds, 3u);
  EXPECT_NE(g.wrong().first.find("must not change"), std::string::npos) << g.wrong().first;
}

INSTANTIATE_TEST_SUITE_P(Places, Check, testing::Bool(),
                         [](const auto& place) { return place.param ? "InPlace" : "OutOfPlace"; });

TEST(CheckInput, MustNotChangeOutOfPlace) {
  Gathered g(false);
  g.send.data()[10 * kElement] ^= std::byte{1};
  EXPECT_EQ(g.wrong().out_of_bounds, 1u);
  EXPECT_NE(g.wrong().first.find("sent element 10 is"), std::string::npos) << g.wrong().first;
}

TEST(CheckReceiver, ThatGetsNothingKeepsItsMemory) {
  for (const bool in_place : {false, true}) {
    CheckedCall call{{1, kRanks, 0, kCount}, tuttiInt32, {.send = kCount, .recv = kCount}, {}, in_place};
    const Pattern pattern(tuttiInt32, Operation::sum, kRanks, 1);
    Buffer send(kCount * 4), recv(kCount * 4);
    fill(call, pattern, send, recv);
    EXPECT_EQ(find_wrong(call, pattern, send, recv).total(), 0u);
    recv.data()[4] ^= std::byte{1};
    EXPECT_EQ(find_wrong(call, pattern, send, recv).total(), 1u);
  }
}

TEST(CheckReduction, ComparesWithThePlaceInTheInput) {
  // A reduce-scatter: rank 2's block begins at 2 * count of everybody's input.
  CheckedCall call{{2, kRanks, 0, kCount},
                   tuttiInt64,
                   {.send = kRanks * kCount, .recv = kCount, .in_place_recv_stride = kCount},
                   {{Block::From::reduction, 0, kCount, 0, 2 * kCount}},
                   true};
  const Pattern pattern(tuttiInt64, Operation::sum, kRanks, 1);
  Buffer send, recv(kRanks * kCount * 8);
  fill(call, pattern, send, recv);
  pattern.result(2 * kCount, kCount, recv.data() + 2 * kCount * 8);
  EXPECT_EQ(find_wrong(call, pattern, send, recv).total(), 0u);
  pattern.result(kCount, kCount, recv.data() + 2 * kCount * 8);
  EXPECT_GT(find_wrong(call, pattern, send, recv).elements, kCount * 9 / 10);
}

TEST(CheckNothing, IsRight) {
  CheckedCall call{{0, kRanks, 0, 0}, kType, {}, {}, false};
  const Pattern pattern(kType, Operation::none, kRanks, 1);
  Buffer send(16), recv(16);
  fill(call, pattern, send, recv);
  EXPECT_EQ(find_wrong(call, pattern, send, recv).total(), 0u);
  recv.data()[0] ^= std::byte{1};
  EXPECT_EQ(find_wrong(call, pattern, send, recv).out_of_bounds, 1u);
}

}  // namespace
}  // namespace tutti::perf
