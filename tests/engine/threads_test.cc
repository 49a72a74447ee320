// Ranks as threads over shared memory, each in the library's wait loop: engine, wake-ups and transport together.
#include <gtest/gtest.h>

#include <thread>

#include "algorithms/algorithm.h"
#include "engine/execution.h"
#include "engine/wait.h"
#include "tests/engine/rank_links.h"
#include "transports/shm/shm.h"

namespace tutti {
namespace {

constexpr uint32_t kRanks = 3;
constexpr uint64_t kCount = 5001;

// What a communicator's driver does, for one execution.
class Turn final : public Waitable {
 public:
  Turn(Transport& transport, Execution& execution) : transport_(transport), execution_(execution) {}
  Result<Progress> poll() override {
    TUTTI_TRY(transport_.progress());
    return execution_.poll();
  }
  bool prepare_wait(std::vector<pollfd>& descriptors) override { return transport_.prepare_wait(descriptors); }
  void finish_wait() override { transport_.finish_wait(); }
  Status check(Nanoseconds since_last_move) override {
    if (since_last_move > 60 * kSecond) return fail(tuttiTimeout, "a wake-up was lost");
    return transport_.check_peers();
  }

 private:
  Transport& transport_;
  Execution& execution_;
};

// Sums many times, in place; the first wrong value is an error.
Status sum_repeatedly(Transport& transport, const Algorithm& algorithm, Rank self, const WaitPolicy& policy) {
  RankLinks links([&](Rank) -> Transport& { return transport; });
  const Shape shape{Collective::all_reduce, Rank{kRanks}, Rank{0}, 2};
  TUTTI_TRY_ASSIGN(auto execution,
                   Execution::create(algorithm.plan(shape, self), shape.collective, shape.nranks, links));
  for (uint32_t round = 0; round < 40; ++round) {
    std::vector<uint64_t> data(kCount);
    for (uint64_t i = 0; i < kCount; ++i) data[i] = self + i * round;
    auto* bytes = reinterpret_cast<std::byte*>(data.data());
    const Layout layout({kCount, {}, {}}, 1, execution->grid().chunks_per_block, 8);
    execution->start({.in = bytes,
                      .out = bytes,
                      .in_layout = layout,
                      .out_layout = layout,
                      .fold = {DataType::uint64, ReduceOp::sum, kRanks, 0},
                      .tile_bytes = 4096,
                      .stamp = {.tag = 1, .sequence = round}});
    Turn turn(transport, *execution);
    TUTTI_TRY(wait_until_finished(turn, policy, SteadyClock::instance()));
    for (uint64_t i = 0; i < kCount; ++i)
      if (data[i] != kRanks * (kRanks - 1) / 2 + kRanks * i * round)
        return fail(tuttiInternalError, "rank {}, round {}: element {} is {}", uint32_t{self}, round, i, data[i]);
  }
  return {};
}

class Threads : public testing::TestWithParam<const char*> {};

TEST_P(Threads, SumOverSharedMemory) {
  const Algorithm* algorithm = find_algorithm(GetParam(), Collective::all_reduce);
  ASSERT_NE(algorithm, nullptr);
  // One that spins and one that blocks at once, so that wake-ups are used for sure.
  for (const WaitPolicy& policy : {wait_policy(kRanks, kRanks), WaitPolicy{0, 0}}) {
    std::vector<std::unique_ptr<Transport>> transports;
    std::vector<std::vector<std::byte>> addresses;
    std::vector<std::string> descriptions;
    for (uint32_t r = 0; r < kRanks; ++r) {
      auto made = make_shm_transport(
          {.config = {}, .key = std::vector<std::byte>(32), .self = Rank{r}, .nranks = Rank{kRanks}});
      ASSERT_TRUE(made.ok()) << made.status().c_str();
      addresses.push_back((*made)->address());
      descriptions.push_back(fmt::format("rank {}", r));
      transports.push_back(std::move(made).value());
    }
    for (auto& transport : transports) ASSERT_TRUE(transport->set_peers(addresses, descriptions).ok());
    std::vector<Status> statuses(kRanks);
    {
      std::vector<std::jthread> threads;
      for (uint32_t r = 0; r < kRanks; ++r)
        threads.emplace_back([&, r] { statuses[r] = sum_repeatedly(*transports[r], *algorithm, Rank{r}, policy); });
    }
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.c_str();
  }
}

INSTANTIATE_TEST_SUITE_P(AllReduce, Threads, testing::Values("ring", "tree", "all_pairs", "recursive_doubling"),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace tutti
