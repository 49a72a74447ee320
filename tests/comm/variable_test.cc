// The V-variants: ragged and empty blocks, displacements with gaps and in any order, NULL displacements.
#include <numeric>

#include "ranks.h"

namespace tutti::test {
namespace {

using Values = std::vector<int32_t>;
using Sizes = std::vector<size_t>;

constexpr int32_t kUntouched = -1;
int32_t mark(int rank, size_t i) { return rank * 1'000'000 + static_cast<int32_t>(i % 999'983); }

// Where blocks of these counts lie: back to back, or in reverse order with a gap of 3 before each.
Sizes back_to_back(const Sizes& counts) {
  Sizes displs(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), displs.begin(), size_t{0});
  return displs;
}
Sizes reversed_with_gaps(const Sizes& counts) {
  Sizes displs(counts.size());
  size_t next = 0;
  for (size_t r = counts.size(); r-- > 0;) {
    displs[r] = next + 3;
    next = displs[r] + counts[r];
  }
  return displs;
}
size_t extent(const Sizes& counts, const Sizes& displs) {
  size_t end = 0;
  for (size_t r = 0; r < counts.size(); ++r) end = std::max(end, displs[r] + counts[r]);
  return end;
}

// Several shapes of raggedness for n ranks.
std::vector<Sizes> count_tables(int n) {
  std::vector<Sizes> tables;
  const auto add = [&](const std::function<size_t(int)>& count) {
    Sizes counts;
    for (int r = 0; r < n; ++r) counts.push_back(count(r));
    tables.push_back(counts);
  };
  add([](int) { return 0; });
  add([](int r) { return r; });                    // the first is empty
  add([n](int r) { return r == n - 1 ? 5 : 0; });  // only the last has any
  add([](int r) { return r % 2 == 0 ? 1 : 1000 + r; });
  add([](int r) { return r == 0 ? 150'000 : 7 * r; });  // one of several messages, the others small
  add([](int r) { return r % 2 == 0 ? 0 : 33'333; });
  return tables;
}

void expect_equal(const Values& got, const Values& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  const auto [g, w] = std::mismatch(got.begin(), got.end(), want.begin());
  if (g != got.end()) ADD_FAILURE() << what << ": element " << g - got.begin() << " is " << *g << ", not " << *w;
}

class Variable : public WorldTest {
 protected:
  // body(member, counts, displs, pass_null): each table with both ways to lay it out.
  void for_tables(const std::function<void(const Member&, const Sizes&, const Sizes&, bool)>& body) {
    const Ranks ranks(n());
    const std::vector<Sizes> tables = count_tables(n());
    ranks.run([&](const Member& me) {
      for (size_t t = 0; t < tables.size(); ++t) {
        SCOPED_TRACE("table " + std::to_string(t));
        body(me, tables[t], back_to_back(tables[t]), true);
        body(me, tables[t], reversed_with_gaps(tables[t]), false);
      }
    });
  }
};

TEST_P(Variable, AllGatherV) {
  for_tables([](const Member& me, const Sizes& counts, const Sizes& displs, bool pass_null) {
    Values want(extent(counts, displs), kUntouched);
    for (int r = 0; r < me.n; ++r)
      for (size_t i = 0; i < counts[static_cast<size_t>(r)]; ++i) want[displs[static_cast<size_t>(r)] + i] = mark(r, i);
    const size_t self = static_cast<size_t>(me.rank);
    Values send(counts[self]);
    for (size_t i = 0; i < send.size(); ++i) send[i] = mark(me.rank, i);
    const size_t* table = pass_null ? nullptr : displs.data();
    Values recv(want.size(), kUntouched), both(want.size(), kUntouched);
    EXPECT_DONE(tuttiAllGatherV(send.data(), recv.data(), counts.data(), table, tuttiInt32, me.comm, nullptr));
    expect_equal(recv, want, "out of place");
    int32_t* own = both.data() + displs[self];
    std::copy(send.begin(), send.end(), own);
    EXPECT_DONE(tuttiAllGatherV(own, both.data(), counts.data(), table, tuttiInt32, me.comm, nullptr));
    expect_equal(both, want, "in place");
  });
}

TEST_P(Variable, ReduceScatterV) {
  for_tables([](const Member& me, const Sizes& counts, const Sizes& displs, bool pass_null) {
    Values send(extent(counts, displs));
    for (size_t i = 0; i < send.size(); ++i) send[i] = mark(me.rank, i);
    const size_t self = static_cast<size_t>(me.rank);
    Values want(counts[self]);
    for (size_t i = 0; i < want.size(); ++i)
      for (int r = 0; r < me.n; ++r) want[i] += mark(r, displs[self] + i);
    const size_t* table = pass_null ? nullptr : displs.data();
    Values recv(want.size(), kUntouched), both = send;
    EXPECT_DONE(
        tuttiReduceScatterV(send.data(), recv.data(), counts.data(), table, tuttiInt32, tuttiSum, me.comm, nullptr));
    expect_equal(recv, want, "out of place");
    int32_t* own = both.data() + displs[self];
    EXPECT_DONE(tuttiReduceScatterV(both.data(), own, counts.data(), table, tuttiInt32, tuttiSum, me.comm, nullptr));
    expect_equal(Values(own, own + counts[self]), want, "in place");
  });
}

// How many elements `from` sends to `to`, in several shapes.
size_t traffic(int shape, int from, int to) {
  switch (shape) {
    case 0:
      return 0;
    case 1:
      return static_cast<size_t>(from * 3 + to);
    case 2:
      return from == to ? 0 : static_cast<size_t>(100 * to + from);
    case 3:
      return from == 0 && to == 0 ? 200'000 : 3;  // a rank with much for itself has no more messages for others
    case 4:
      return from == 0 ? 90'000 : 1;
    default:
      return (from + to) % 2 == 0 ? 0 : static_cast<size_t>(40'000 + from);
  }
}

TEST_P(Variable, AllToAllV) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    for (int shape = 0; shape < 6; ++shape) {
      for (const bool gaps : {false, true}) {
        SCOPED_TRACE("shape " + std::to_string(shape) + (gaps ? " with gaps" : ""));
        Sizes send_counts, recv_counts;
        for (int r = 0; r < me.n; ++r) {
          send_counts.push_back(traffic(shape, me.rank, r));
          recv_counts.push_back(traffic(shape, r, me.rank));
        }
        const auto layout = gaps ? reversed_with_gaps : back_to_back;
        const Sizes send_displs = layout(send_counts), recv_displs = layout(recv_counts);
        Values send(extent(send_counts, send_displs), kUntouched), want(extent(recv_counts, recv_displs), kUntouched);
        for (size_t r = 0; r < send_counts.size(); ++r) {
          const int other = static_cast<int>(r);
          for (size_t i = 0; i < send_counts[r]; ++i) send[send_displs[r] + i] = mark(me.rank, i + r * 11);
          for (size_t i = 0; i < recv_counts[r]; ++i)
            want[recv_displs[r] + i] = mark(other, i + static_cast<size_t>(me.rank) * 11);
        }
        Values recv(want.size(), kUntouched);
        EXPECT_DONE(tuttiAllToAllV(send.data(), send_counts.data(), gaps ? send_displs.data() : nullptr, recv.data(),
                                   recv_counts.data(), gaps ? recv_displs.data() : nullptr, tuttiInt32, me.comm,
                                   nullptr));
        expect_equal(recv, want, "all_to_all");
      }
    }
  });
}

TEST_P(Variable, ThenOthersStillWork) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    Sizes counts(static_cast<size_t>(me.n), 1);
    counts[0] = 0;
    const int32_t mine = me.rank;
    Values all(static_cast<size_t>(me.n));
    for (int round = 0; round < 10; ++round) {
      EXPECT_DONE(tuttiAllGatherV(&mine, all.data(), counts.data(), nullptr, tuttiInt32, me.comm, nullptr));
      expect_usable(me);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, Variable, testing::ValuesIn(worlds({1, 2, 3, 4, 5})), world_name);

// Enough ranks that the choice of an algorithm depends on the size: all must choose alike, though one has much and the
// others little.
TEST(VariableOfMany, AllRanksChooseAlike) {
  const Environment environment;
  const Ranks ranks(18);
  ranks.run([](const Member& me) {
    Sizes counts(static_cast<size_t>(me.n), 3);
    counts[5] = 20'000;
    const Sizes displs = back_to_back(counts);
    Values want;
    for (int r = 0; r < me.n; ++r)
      for (size_t i = 0; i < counts[static_cast<size_t>(r)]; ++i) want.push_back(mark(r, i));
    const size_t self = static_cast<size_t>(me.rank);
    const Values send(want.begin() + static_cast<long>(displs[self]),
                      want.begin() + static_cast<long>(displs[self] + counts[self]));
    Values recv(want.size());
    EXPECT_DONE(tuttiAllGatherV(send.data(), recv.data(), counts.data(), nullptr, tuttiInt32, me.comm, nullptr));
    expect_equal(recv, want, "all_gather");
    Values part(counts[self]);
    EXPECT_DONE(
        tuttiReduceScatterV(want.data(), part.data(), counts.data(), nullptr, tuttiInt32, tuttiMax, me.comm, nullptr));
    expect_equal(part, send, "reduce_scatter");
  });
}

}  // namespace
}  // namespace tutti::test
