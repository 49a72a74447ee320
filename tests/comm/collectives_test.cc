// Each collective moves the right elements to the right places: all roots, counts from none to many messages.
#include <atomic>
#include <mutex>
#include <set>

#include "ranks.h"

namespace tutti::test {
namespace {

// Every other large buffer is from tuttiMemAlloc, so that ranks meet in all combinations of what can be lent and granted
// and what cannot.
template <class T>
struct MixedMemory {
  using value_type = T;
  MixedMemory() = default;
  template <class U>
  MixedMemory(const MixedMemory<U>&) {}
  static constexpr size_t kLargeBytes = 64 << 10;

  T* allocate(size_t count) {
    void* memory = nullptr;
    const size_t bytes = count * sizeof(T);
    if (bytes < kLargeBytes || turn_++ % 2 == 0) return static_cast<T*>(::operator new(bytes));
    EXPECT_DONE(tuttiMemAlloc(&memory, bytes));
    const std::lock_guard lock(mutex_);
    shareable_.insert(memory);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) {
    {
      const std::lock_guard lock(mutex_);
      if (shareable_.erase(memory) == 0) return ::operator delete(memory);
    }
    EXPECT_DONE(tuttiMemFree(memory));
  }
  bool operator==(const MixedMemory&) const { return true; }

 private:
  static inline std::atomic<size_t> turn_ = 0;
  static inline std::mutex mutex_;
  static inline std::set<void*> shareable_;
};

using Values = std::vector<int64_t, MixedMemory<int64_t>>;

// What rank r contributes at element i; distinct for all that matters.
int64_t mark(int rank, size_t i) { return (rank + 1) * 1'000'003LL + static_cast<int64_t>(i) * 7; }
constexpr int64_t kUntouched = -77;

Values marks(int rank, size_t count, size_t from = 0) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) values[i] = mark(rank, from + i);
  return values;
}
int64_t sum_of_marks(int n, size_t i) {
  int64_t sum = 0;
  for (int r = 0; r < n; ++r) sum += mark(r, i);
  return sum;
}
Values sums(int n, size_t count, size_t from = 0) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) values[i] = sum_of_marks(n, from + i);
  return values;
}

// Not EXPECT_EQ of the vectors, which would print 100,000 elements.
void expect_equal(const Values& got, const Values& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  const auto [g, w] = std::mismatch(got.begin(), got.end(), want.begin());
  if (g != got.end()) ADD_FAILURE() << what << ": element " << g - got.begin() << " is " << *g << ", not " << *w;
}

class Collectives : public WorldTest {
 protected:
  // body(member, count) for counts of no element, one, an odd number, and many messages; blocks make the buffers n
  // times as large, so there are fewer of them to send.
  void for_counts(size_t largest, const std::function<void(const Member&, size_t)>& body) {
    const Ranks ranks(n());
    ranks.run([&](const Member& member) {
      for (size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{1001}, largest}) body(member, count);
    });
  }
};

TEST_P(Collectives, AllReduce) {
  for_counts(100'000, [](const Member& me, size_t count) {
    const Values send = marks(me.rank, count);
    Values recv(count, kUntouched), both = send;
    EXPECT_DONE(tuttiAllReduce(send.data(), recv.data(), count, tuttiInt64, tuttiSum, me.comm, nullptr));
    expect_equal(recv, sums(me.n, count), "out of place");
    expect_equal(send, marks(me.rank, count), "the input");
    EXPECT_DONE(tuttiAllReduce(both.data(), both.data(), count, tuttiInt64, tuttiSum, me.comm, nullptr));
    expect_equal(both, sums(me.n, count), "in place");
  });
}

TEST_P(Collectives, Broadcast) {
  for_counts(100'000, [](const Member& me, size_t count) {
    for (int root = 0; root < me.n; ++root) {
      const Values send = marks(me.rank, count);
      Values recv(count, kUntouched), both = send;
      const int64_t* from = me.rank == root ? send.data() : nullptr;  // only root's is read
      EXPECT_DONE(tuttiBroadcast(from, recv.data(), count, tuttiInt64, root, me.comm, nullptr));
      expect_equal(recv, marks(root, count), "out of place");
      EXPECT_DONE(tuttiBroadcast(both.data(), both.data(), count, tuttiInt64, root, me.comm, nullptr));
      expect_equal(both, marks(root, count), "in place");
    }
  });
}

TEST_P(Collectives, Reduce) {
  for_counts(100'000, [](const Member& me, size_t count) {
    for (int root = 0; root < me.n; ++root) {
      const bool is_root = me.rank == root;
      const Values send = marks(me.rank, count);
      Values recv(count, kUntouched), both = send;
      EXPECT_DONE(tuttiReduce(send.data(), is_root ? recv.data() : nullptr, count, tuttiInt64, tuttiSum, root, me.comm,
                              nullptr));
      expect_equal(send, marks(me.rank, count), "the input");
      if (is_root) expect_equal(recv, sums(me.n, count), "out of place");
      EXPECT_DONE(tuttiReduce(both.data(), both.data(), count, tuttiInt64, tuttiSum, root, me.comm, nullptr));
      expect_equal(both, is_root ? sums(me.n, count) : send, "in place");
    }
  });
}

TEST_P(Collectives, ReduceScatter) {
  for_counts(30'000, [](const Member& me, size_t count) {
    const size_t n = static_cast<size_t>(me.n), own = static_cast<size_t>(me.rank) * count;
    const Values send = marks(me.rank, n * count);
    Values recv(count, kUntouched), both = send;
    EXPECT_DONE(tuttiReduceScatter(send.data(), recv.data(), count, tuttiInt64, tuttiSum, me.comm, nullptr));
    expect_equal(recv, sums(me.n, count, own), "out of place");
    expect_equal(send, marks(me.rank, n * count), "the input");
    EXPECT_DONE(tuttiReduceScatter(both.data(), both.data() + own, count, tuttiInt64, tuttiSum, me.comm, nullptr));
    expect_equal({both.begin() + static_cast<long>(own), both.begin() + static_cast<long>(own + count)},
                 sums(me.n, count, own), "in place");
  });
}

TEST_P(Collectives, AllGather) {
  for_counts(30'000, [](const Member& me, size_t count) {
    const Values send = marks(me.rank, count);
    Values want;
    for (int r = 0; r < me.n; ++r)
      for (size_t i = 0; i < count; ++i) want.push_back(mark(r, i));
    Values recv(want.size(), kUntouched), both(want.size(), kUntouched);
    EXPECT_DONE(tuttiAllGather(send.data(), recv.data(), count, tuttiInt64, me.comm, nullptr));
    expect_equal(recv, want, "out of place");
    int64_t* own = both.data() + static_cast<size_t>(me.rank) * count;
    std::copy(send.begin(), send.end(), own);
    EXPECT_DONE(tuttiAllGather(own, both.data(), count, tuttiInt64, me.comm, nullptr));
    expect_equal(both, want, "in place");
  });
}

TEST_P(Collectives, AllToAll) {
  for_counts(30'000, [](const Member& me, size_t count) {
    const Values send = marks(me.rank, static_cast<size_t>(me.n) * count);
    Values want, recv(send.size(), kUntouched);
    for (int r = 0; r < me.n; ++r)
      for (size_t i = 0; i < count; ++i) want.push_back(mark(r, static_cast<size_t>(me.rank) * count + i));
    EXPECT_DONE(tuttiAllToAll(send.data(), recv.data(), count, tuttiInt64, me.comm, nullptr));
    expect_equal(recv, want, "all_to_all");
  });
}

TEST_P(Collectives, Gather) {
  for_counts(30'000, [](const Member& me, size_t count) {
    for (int root = 0; root < me.n; ++root) {
      const bool is_root = me.rank == root;
      const Values send = marks(me.rank, count);
      Values want;
      for (int r = 0; is_root && r < me.n; ++r)
        for (size_t i = 0; i < count; ++i) want.push_back(mark(r, i));
      Values recv(want.size(), kUntouched), both(want.size(), kUntouched);
      EXPECT_DONE(tuttiGather(send.data(), is_root ? recv.data() : nullptr, count, tuttiInt64, root, me.comm, nullptr));
      expect_equal(recv, want, "out of place");
      int64_t* own = both.data() + static_cast<size_t>(me.rank) * count;
      if (is_root) std::copy(send.begin(), send.end(), own);
      EXPECT_DONE(tuttiGather(is_root ? own : send.data(), both.data(), count, tuttiInt64, root, me.comm, nullptr));
      expect_equal(both, want, "in place");
    }
  });
}

TEST_P(Collectives, Scatter) {
  for_counts(30'000, [](const Member& me, size_t count) {
    for (int root = 0; root < me.n; ++root) {
      const bool is_root = me.rank == root;
      const size_t own = static_cast<size_t>(me.rank) * count;
      Values send = is_root ? marks(root, static_cast<size_t>(me.n) * count) : Values();
      Values recv(count, kUntouched);
      EXPECT_DONE(
          tuttiScatter(is_root ? send.data() : nullptr, recv.data(), count, tuttiInt64, root, me.comm, nullptr));
      expect_equal(recv, marks(root, count, own), "out of place");
      int64_t* place = is_root ? send.data() + own : recv.data();
      EXPECT_DONE(tuttiScatter(is_root ? send.data() : nullptr, place, count, tuttiInt64, root, me.comm, nullptr));
      expect_equal(is_root ? send : recv, is_root ? marks(root, send.size()) : marks(root, count, own), "in place");
    }
  });
}

TEST_P(Collectives, ABarrierHoldsEarlyRanksBack) {
  const Ranks ranks(n());
  std::atomic<int> arrived{0};
  ranks.run([&](const Member& me) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      EXPECT_DONE(tuttiBarrier(me.comm, nullptr));
      EXPECT_GE(arrived.load(), round * me.n);
      EXPECT_DONE(tuttiBarrier(me.comm, nullptr));
      EXPECT_LE(arrived.load(), (round + 1) * me.n);
    }
  });
}

// Changing sizes on the same links: what one operation leaves behind would show in the next.
TEST_P(Collectives, ManyOfManySizes) {
  const Ranks ranks(n());
  ranks.run([](const Member& me) {
    for (size_t k = 0; k < 60; ++k) {
      const size_t count = k * k * k % 5000;
      Values both = marks(me.rank, count, k);
      EXPECT_DONE(tuttiAllReduce(both.data(), both.data(), count, tuttiInt64, tuttiSum, me.comm, nullptr));
      expect_equal(both, sums(me.n, count, k), "all_reduce");
      Values told = marks(me.rank, count, k);
      const int root = static_cast<int>(k) % me.n;
      EXPECT_DONE(tuttiBroadcast(told.data(), told.data(), count, tuttiInt64, root, me.comm, nullptr));
      expect_equal(told, marks(root, count, k), "broadcast");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, Collectives, testing::ValuesIn(worlds({1, 2, 3, 4, 5})), world_name);

}  // namespace
}  // namespace tutti::test
