// An operation over shared memory, once its plan exists, allocates nothing and asks nothing of the kernel but to wait.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "counted.h"
#include "tutti/tutti.h"

namespace tutti::test {
namespace {

constexpr int kRanks = 2;
constexpr int kWarmUp = 100, kCalls = 1000;

struct Tally {
  std::string problem;
  uint64_t allocations = 0;  // of calls without a system call: those that did not wait
  int without_system_call = 0;
  std::map<int64_t, int> first_system_calls;
};

using Call = tuttiResult_t (*)(std::vector<float>& in, std::vector<float>& out, tuttiComm_t comm, int rank);

Tally tally_of(Call call, size_t count, tuttiComm_t comm, int rank) {
  Tally tally;
  std::array<std::vector<float>, 2> ins = {std::vector<float>(count, 1), std::vector<float>(count + kRanks, 1)};
  std::array<std::vector<float>, 2> outs = ins;
  if (!can_catch_system_calls()) {
    tally.problem = "skip";
    return tally;
  }
  for (int i = 0; i < kWarmUp + kCalls; ++i) {
    // Two sizes in turn: what is remembered of one must not cost the other anything.
    std::vector<float>& in = ins[i % 2];
    std::vector<float>& out = outs[i % 2];
    start_counting();
    const tuttiResult_t result = call(in, out, comm, rank);
    const Counted counted = stop_counting();
    if (result != tuttiSuccess) {
      tally.problem = tuttiGetLastError(comm);
      return tally;
    }
    if (i < kWarmUp) continue;
    if (counted.system_call < 0) {
      ++tally.without_system_call;
      tally.allocations += counted.allocations;
    } else {
      ++tally.first_system_calls[counted.system_call];
    }
  }
  return tally;
}

class HotPath : public testing::TestWithParam<std::pair<const char*, Call>> {
 protected:
  void SetUp() override {
    ::setenv("TUTTI_TRANSPORT", "shm", 1);
    ::setenv("TUTTI_SOCKET_IFNAME", "=lo", 1);
    ASSERT_EQ(tuttiCommInitAll(comms_.data(), kRanks, nullptr), tuttiSuccess) << tuttiGetLastError(nullptr);
  }
  void TearDown() override {
    for (tuttiComm_t comm : comms_) EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  }

  std::array<Tally, kRanks> tallies_of(size_t count) {
    std::array<Tally, kRanks> tallies;
    std::vector<std::thread> threads;
    for (int r = 0; r < kRanks; ++r)
      threads.emplace_back([&, r] { tallies[r] = tally_of(GetParam().second, count, comms_[r], r); });
    for (std::thread& thread : threads) thread.join();
    return tallies;
  }

  std::array<tuttiComm_t, kRanks> comms_{};
};

void expect_only_waiting(const Tally& tally) {
  EXPECT_EQ(tally.allocations, 0u);
  // Giving up the core or asking whether it was lost, getting ready to sleep, looking for news meanwhile, and ringing
  // the bell of one who sleeps.
  const std::set<int64_t> waiting = {SYS_sched_yield, SYS_getrusage, SYS_membarrier,
                                     SYS_poll,        SYS_recvfrom,  SYS_sendto};
  for (const auto& [number, times] : tally.first_system_calls)
    EXPECT_TRUE(waiting.contains(number)) << "system call " << number << ", " << times << " times";
}

// That a call does not always have to wait is what two calls of one kind show, of which the rank that comes later finds
// all that it needs. While others use the cores every call of a round may have to wait; another round then.
TEST_P(HotPath, NeitherAllocatesNorEntersTheKernelUnlessItWaits) {
  constexpr int kMostRounds = 100;
  for (const size_t count : {2, 1024, 100'000}) {
    SCOPED_TRACE(std::to_string(count) + " elements");
    int without = 0;
    for (int round = 0; round < kMostRounds && without == 0; ++round)
      for (const Tally& tally : tallies_of(count)) {
        if (tally.problem == "skip") GTEST_SKIP() << "this kernel does not let a thread catch its system calls";
        ASSERT_EQ(tally.problem, "");
        expect_only_waiting(tally);
        without += tally.without_system_call;
      }
    EXPECT_GT(without, 0) << "of " << kMostRounds << " rounds";
  }
}

constexpr std::pair<const char*, Call> kCallsToTry[] = {
    {"all_reduce",
     [](std::vector<float>& in, std::vector<float>& out, tuttiComm_t comm, int) {
       return tuttiAllReduce(in.data(), out.data(), in.size(), tuttiFloat32, tuttiSum, comm, nullptr);
     }},
    {"reduce_scatter",
     [](std::vector<float>& in, std::vector<float>& out, tuttiComm_t comm, int) {
       return tuttiReduceScatter(in.data(), out.data(), in.size() / kRanks, tuttiFloat32, tuttiSum, comm, nullptr);
     }},
    {"all_gather",
     [](std::vector<float>& in, std::vector<float>& out, tuttiComm_t comm, int) {
       return tuttiAllGather(in.data(), out.data(), in.size() / kRanks, tuttiFloat32, comm, nullptr);
     }},
    {"broadcast", [](std::vector<float>& in, std::vector<float>& out, tuttiComm_t comm,
                     int) { return tuttiBroadcast(in.data(), out.data(), in.size(), tuttiFloat32, 0, comm, nullptr); }},
    {"send_recv",
     [](std::vector<float>& in, std::vector<float>& out, tuttiComm_t comm, int rank) {
       return rank == 0 ? tuttiSend(in.data(), in.size(), tuttiFloat32, 1, comm, nullptr)
                        : tuttiRecv(out.data(), out.size(), tuttiFloat32, 0, comm, nullptr);
     }},
};
INSTANTIATE_TEST_SUITE_P(Calls, HotPath, testing::ValuesIn(kCallsToTry),
                         [](const auto& named) { return std::string(named.param.first); });

}  // namespace
}  // namespace tutti::test
