// Send and Recv: alone, in groups, to oneself, many and of many sizes.
#include <numeric>

#include "ranks.h"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

using Values = std::vector<int32_t>;

Values pattern(int from, int to, size_t count, int round = 0) {
  Values values(count);
  std::iota(values.begin(), values.end(), from * 1'000'000 + to * 100'000 + round * 1000);
  return values;
}
// Not EXPECT_EQ, which would print every element.
bool same(const Values& a, const Values& b) { return a == b; }

class Messages : public WorldTest {};

TEST_P(Messages, PingPong) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    for (int round = 0; round < 50 && me.rank < 2; ++round) {
      for (size_t count : {size_t{1}, size_t{100}, size_t{20'000}}) {
        Values got(count);
        const Values mine = pattern(me.rank, 1 - me.rank, count, round);
        if (me.rank == 0) EXPECT_DONE(tuttiSend(mine.data(), count, tuttiInt32, 1, me.comm, nullptr));
        EXPECT_DONE(tuttiRecv(got.data(), count, tuttiInt32, 1 - me.rank, me.comm, nullptr));
        if (me.rank == 1) EXPECT_DONE(tuttiSend(mine.data(), count, tuttiInt32, 0, me.comm, nullptr));
        ASSERT_TRUE(same(got, pattern(1 - me.rank, me.rank, count, round))) << round << ", " << count;
      }
    }
  });
}

TEST_P(Messages, OneWaySizesKeepTheirOrder) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    if (me.rank > 1) return;
    for (size_t count : {size_t{3}, size_t{0}, size_t{200'000}, size_t{1}, size_t{0}, size_t{65'536}, size_t{17}}) {
      Values values = pattern(0, 1, count), got(count);
      if (me.rank == 0) EXPECT_DONE(tuttiSend(values.data(), count, tuttiInt32, 1, me.comm, nullptr));
      if (me.rank == 0) continue;
      EXPECT_DONE(tuttiRecv(got.data(), count, tuttiInt32, 0, me.comm, nullptr));
      EXPECT_TRUE(same(got, values)) << count;
    }
  });
}

TEST_P(Messages, ARingInAGroup) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    const int next = (me.rank + 1) % me.n, before = (me.rank + me.n - 1) % me.n;
    for (size_t count : {size_t{0}, size_t{1}, size_t{300'000}}) {
      const Values mine = pattern(me.rank, next, count);
      Values got(count);
      EXPECT_DONE(tuttiGroupStart());
      EXPECT_DONE(tuttiSend(mine.data(), count, tuttiInt32, next, me.comm, nullptr));
      EXPECT_DONE(tuttiRecv(got.data(), count, tuttiInt32, before, me.comm, nullptr));
      EXPECT_DONE(tuttiGroupEnd());
      EXPECT_TRUE(same(got, pattern(before, me.rank, count))) << count;
    }
  });
}

// All sends before all receives, also to oneself, and two messages for each pair.
TEST_P(Messages, EverybodyToEverybodyInAGroup) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    const size_t sizes[2] = {50'000, 11};
    std::vector<Values> mine, got;
    EXPECT_DONE(tuttiGroupStart());
    for (int peer = 0; peer < me.n; ++peer)
      for (int k = 0; k < 2; ++k) mine.push_back(pattern(me.rank, peer, sizes[k], k));
    for (size_t i = 0; i < mine.size(); ++i)
      EXPECT_DONE(tuttiSend(mine[i].data(), mine[i].size(), tuttiInt32, static_cast<int>(i / 2), me.comm, nullptr));
    for (const Values& values : mine) got.emplace_back(values.size());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_DONE(tuttiRecv(got[i].data(), got[i].size(), tuttiInt32, static_cast<int>(i / 2), me.comm, nullptr));
    EXPECT_DONE(tuttiGroupEnd());
    for (size_t i = 0; i < got.size(); ++i) {
      const int k = static_cast<int>(i % 2);
      EXPECT_TRUE(same(got[i], pattern(static_cast<int>(i / 2), me.rank, sizes[k], k))) << i;
    }
  });
}

TEST_P(Messages, ToOneselfInAGroup) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    const Values mine = pattern(me.rank, me.rank, 70'000);
    Values got(mine.size());
    EXPECT_DONE(tuttiGroupStart());
    EXPECT_DONE(tuttiRecv(got.data(), got.size(), tuttiInt32, me.rank, me.comm, nullptr));
    EXPECT_DONE(tuttiSend(mine.data(), mine.size(), tuttiInt32, me.rank, me.comm, nullptr));
    EXPECT_DONE(tuttiGroupEnd());
    EXPECT_TRUE(same(got, mine));
  });
}

TEST_P(Messages, ManyBothWays) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    if (me.rank > 1) return;
    constexpr size_t kMessages = 300;
    std::vector<Values> mine, got;
    for (size_t k = 0; k < kMessages; ++k) {
      mine.push_back(pattern(me.rank, 1 - me.rank, k * 13 % 700, static_cast<int>(k)));
      got.emplace_back(mine.back().size());
    }
    EXPECT_DONE(tuttiGroupStart());
    for (size_t k = 0; k < kMessages; ++k) {
      EXPECT_DONE(tuttiSend(mine[k].data(), mine[k].size(), tuttiInt32, 1 - me.rank, me.comm, nullptr));
      EXPECT_DONE(tuttiRecv(got[k].data(), got[k].size(), tuttiInt32, 1 - me.rank, me.comm, nullptr));
    }
    EXPECT_DONE(tuttiGroupEnd());
    for (size_t k = 0; k < kMessages; ++k)
      ASSERT_TRUE(same(got[k], pattern(1 - me.rank, me.rank, got[k].size(), static_cast<int>(k)))) << k;
  });
}

// Messages and collectives use the same connections, but never each other's data.
TEST_P(Messages, BetweenCollectives) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    for (int round = 0; round < 10; ++round) {
      int32_t value = me.rank, got = -1;
      if (me.rank == 0) EXPECT_DONE(tuttiSend(&value, 1, tuttiInt32, 1, me.comm, nullptr));
      if (me.rank == 1) EXPECT_DONE(tuttiRecv(&got, 1, tuttiInt32, 0, me.comm, nullptr));
      EXPECT_EQ(got, me.rank == 1 ? 0 : -1);
      expect_usable(me);
    }
  });
}

// The two that disagree say so with both numbers; the others hear of it.
TEST_P(Messages, UnequalCountsNameBothSides) {
  const Ranks ranks(n());
  const std::vector<std::string> texts = ranks.each([](const Member& me) {
    Values values(100);
    if (me.rank == 0) {
      EXPECT_DONE(tuttiSend(values.data(), 60, tuttiInt32, 1, me.comm, nullptr));
    } else if (me.rank == 1) {
      return problem(tuttiRecv(values.data(), 100, tuttiInt32, 0, me.comm, nullptr));
    }
    return problem(tuttiBarrier(me.comm, nullptr));
  });
  EXPECT_THAT(texts, Each(AllOf(StartsWith("invalid usage"), HasSubstr("rank 0"), HasSubstr("rank 1"),
                                HasSubstr("send/recv of 60 int32"), HasSubstr("send/recv of 100 int32"))));
}

TEST_P(Messages, UnequalTypesNameBothSides) {
  const Ranks ranks(n());
  const std::vector<std::string> texts = ranks.each([](const Member& me) {
    int64_t value = 0;
    if (me.rank == 0) EXPECT_DONE(tuttiSend(&value, 1, tuttiInt32, 1, me.comm, nullptr));
    if (me.rank == 1) return problem(tuttiRecv(&value, 1, tuttiFloat32, 0, me.comm, nullptr));
    return problem(tuttiBarrier(me.comm, nullptr));
  });
  EXPECT_THAT(texts, Each(AllOf(StartsWith("invalid usage"), HasSubstr("int32"), HasSubstr("1 float"))));
}

INSTANTIATE_TEST_SUITE_P(Worlds, Messages, testing::ValuesIn(worlds({2, 3, 5})), world_name);

}  // namespace
}  // namespace tutti::test
