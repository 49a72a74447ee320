// The fibers: barriers, votes, shuffles and the switching itself.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "cuda/port.h"

namespace tutti::dev {
namespace {

struct Sums {
  std::vector<float> in;
  float out = 0;
  uint32_t votes = 0;
};

void sum_of_block(const void* argument) {
  auto& sums = *static_cast<Sums*>(const_cast<void*>(argument));
  TUTTI_SHARED float part[32];
  float s = 0;
  for (size_t i = static_cast<size_t>(tid()); i < sums.in.size(); i += static_cast<size_t>(nthreads())) s += sums.in[i];
  for (int mask = 16; mask > 0; mask /= 2) s += shuffle_xor(s, mask);
  if (tid() % kWarpThreads == 0) part[tid() / kWarpThreads] = s;
  sync_block();
  for (int round = 0; round < 5; ++round)
    if (sync_block_any(tid() == round * 7 % nthreads()) && tid() == 0) ++sums.votes;
  if (sync_block_any(false) && tid() == 0) sums.votes += 100;
  if (tid() != 0) return;
  for (int w = 0; w < nthreads() / kWarpThreads; ++w) sums.out += part[w];
}

TEST(Fibers, SumWithShufflesAndBarriers) {
  Block block(128);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Sums sums;
    sums.in.resize(1000);
    std::iota(sums.in.begin(), sums.in.end(), 0.f);
    block.run({0, 1}, {.seed = seed}, sum_of_block, &sums);
    EXPECT_EQ(sums.out, 499500.f);
    EXPECT_EQ(sums.votes, 5u);
  }
}

struct Messages {
  Vec16 data{};
  uint64_t flag = 0;
  bool early = false;
};

// One thread stores late data and lets the others look before it releases.
void store_late(const void* argument) {
  auto& m = *static_cast<Messages*>(const_cast<void*>(argument));
  if (tid() == 0) {
    store_remote(&m.data, Vec16{{1, 2, 3, 4}});
    store_release(&m.flag, 1);
    return;
  }
  while (load_acquire(&m.flag) == 0) spin_hint(0);
  if (m.data.words[0] != 1 || m.data.words[3] != 4) m.early = true;
}

TEST(Fibers, AReleaseMakesLateStoresVisible) {
  Block block(32);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Messages m;
    block.run({0, 1}, {.seed = seed, .delay_stores = true}, store_late, &m);
    EXPECT_FALSE(m.early);
    EXPECT_EQ(m.data.words[1], 2u);
  }
}

}  // namespace
}  // namespace tutti::dev
