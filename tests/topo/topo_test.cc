#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>

#include "topo/caches.h"
#include "topo/cores.h"

namespace tutti {
namespace {

TEST(Caches, AreReadFromADescription) {
  const Result<Caches> server = synthetic_caches("pack:2 l3:2(size=33554432) l2:4(size=524288) pu:1");
  ASSERT_TRUE(server.ok()) << server.status().c_str();
  EXPECT_EQ(server.value(), (Caches{512 << 10, 32 << 20, 4}));
  const Result<Caches> desktop = synthetic_caches("l3:1(size=8388608) l2:4(size=262144) pu:2");
  EXPECT_EQ(desktop.value(), (Caches{256 << 10, 8 << 20, 1}));
}

TEST(Caches, ThatAreHiddenAreUnknown) {
  EXPECT_EQ(synthetic_caches("core:4 pu:1").value(), (Caches{0, 0, 1}));
  // Without a third level, cores that share a second one are as near as it gets.
  EXPECT_EQ(synthetic_caches("l2:2(size=1048576) core:2 pu:1").value(), (Caches{1 << 20, 0, 2}));
}

TEST(Caches, OfNoMachineAreAnError) {
  const Result<Caches> caches = synthetic_caches("pack:two");
  ASSERT_FALSE(caches.ok());
  EXPECT_NE(caches.status().message().find("pack:two"), std::string_view::npos);
}

TEST(Caches, OfThisMachineAreWhatTheKernelSays) {
  const Caches& caches = machine_caches();
  EXPECT_EQ(&caches, &machine_caches());
  EXPECT_GE(caches.last_level_caches, 1u);
  const CoreSet cores = usable_cores();
  size_t first = 0;
  while ((cores.words[first / 64] >> (first % 64) & 1) == 0) ++first;
  for (int index = 0;; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu" + std::to_string(first) + "/cache/index" + std::to_string(index);
    int level = 0;
    std::string size;
    if (!(std::ifstream(folder + "/level") >> level)) break;
    std::ifstream(folder + "/size") >> size;  // "512K"
    const uint64_t bytes = std::stoull(size) * 1024;
    if (level == 2) {
      EXPECT_GT(caches.l2_bytes, 0u);
      EXPECT_LE(caches.l2_bytes, bytes);
    } else if (level == 3) {
      EXPECT_GT(caches.l3_bytes, 0u);
      EXPECT_LE(caches.l3_bytes, bytes);
    }
  }
}

TEST(Cores, AreThoseOfTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  const CoreSet all = usable_cores();
  int last = 0;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &before)) last = c;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  const CoreSet bound = usable_cores();
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(count_cores({&bound, 1}), 1u);
  EXPECT_EQ(bound.words.back() >> (last % 64), 1u);
  EXPECT_LE(count_cores({&all, 1}), static_cast<uint32_t>(CPU_COUNT(&before)));
}

// mpirun --bind-to core: each rank has one core, and together they have as many as there are ranks.
TEST(Cores, OfSeveralProcessesCountOnce) {
  const CoreSet a{{1}, 0}, b{{2}, 0}, far{{0, 4}, 0}, both{{3}, 0};
  EXPECT_EQ(count_cores(std::vector{a, b}), 2u);
  EXPECT_EQ(count_cores(std::vector{a, a}), 1u);
  EXPECT_EQ(count_cores(std::vector{both, a, b}), 2u);
  EXPECT_EQ(count_cores(std::vector{far, both}), 3u);
  EXPECT_EQ(count_cores({}), 1u);
}

TEST(Cores, AreBoundedByTheQuotaOfAll) {
  const CoreSet eight{{0xff}, 2}, other{{0xff}, 3}, free{{0xff}, 0};
  EXPECT_EQ(count_cores(std::vector{eight}), 2u);
  EXPECT_EQ(count_cores(std::vector{eight, other}), 3u);
  EXPECT_EQ(count_cores(std::vector{eight, free}), 8u);
}

}  // namespace
}  // namespace tutti
