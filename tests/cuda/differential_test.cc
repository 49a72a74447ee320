// The move kernel against the host engine, bit for bit: every algorithm and collective; every type and operation.
#include <gtest/gtest.h>

#include "tests/cuda/device_world.h"
#include "tests/engine/rows.h"

namespace tutti {
namespace {

class Kernels : public testing::TestWithParam<const Algorithm*> {};

bool applies(const Algorithm& a, uint32_t n, uint32_t lanes) { return a.applies({a.collective, Rank{n}, Rank{0}, lanes}); }

// recv is the other end of send.
bool begins(const Algorithm& a) { return a.collective != Collective::recv; }

TEST_P(Kernels, DoWhatTheHostEngineDoes) {
  for (const uint32_t n : {1u, 2u, 3u, 4u, 5u}) {
    DeviceWorld world({.nranks = Rank{n}});
    Ensemble ensemble({.nranks = Rank{n}, .seed = n});
    for (uint32_t i = 0; i < 12; ++i) {
      DeviceCall call;
      call.algorithm = GetParam();
      call.lanes = 1 + i % 2;
      if (!applies(*call.algorithm, n, call.lanes)) continue;
      call.root = Rank{has_root(call.algorithm->collective) ? i % n : 0};
      constexpr uint64_t kCounts[] = {0, 1, 7, 64, 333, 1500};
      call.count = call.algorithm->collective == Collective::barrier ? 0 : kCounts[i / 2];
      call.type = i % 3 == 0 ? DataType::float64 : i % 3 == 1 ? DataType::bfloat16 : DataType::float32;
      call.tile_bytes = i % 4 == 0 ? 4096 : 512;
      call.shift_bytes = i % 5 == 0 ? size_of(call.type) : 0;
      call.protocol = i % 2 == 0 ? dev::Protocol::simple : dev::Protocol::ll;
      call.data_seed = i;
      const Status status = compare(world, ensemble, call);
      EXPECT_TRUE(status.ok()) << n << " ranks: " << status.c_str();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, Kernels, testing::ValuesIn(algorithms_that(begins)), name_of_row);

class TypesOfKernels : public testing::TestWithParam<const Algorithm*> {};

TEST_P(TypesOfKernels, FoldToTheSameBits) {
  constexpr uint32_t kRanks = 3;
  DeviceWorld world({.nranks = Rank{kRanks}});
  Ensemble ensemble({.nranks = Rank{kRanks}, .seed = 7});
  uint64_t seed = 0;
  for (int type = 0; type < kDataTypeCount; ++type)
    for (int op = 0; op < kReduceOpCount; ++op)
      for (const auto protocol : {dev::Protocol::simple, dev::Protocol::ll}) {
        DeviceCall call;
        call.algorithm = GetParam();
        call.type = static_cast<DataType>(type);
        call.op = static_cast<ReduceOp>(op);
        call.protocol = protocol;
        call.count = 1031;
        call.tile_bytes = 2048;
        call.data_seed = seed++;
        const Status status = compare(world, ensemble, call);
        EXPECT_TRUE(status.ok()) << status.c_str();
      }
}

INSTANTIATE_TEST_SUITE_P(Rows, TypesOfKernels,
                         testing::ValuesIn(algorithms_that([](const Algorithm& a) { return is_reduction(a.collective); })),
                         name_of_row);

TEST(KernelsOnTables, MoveBlocksOfDifferentLengths) {
  constexpr uint32_t kRanks = 3;
  DeviceWorld world({.nranks = Rank{kRanks}});
  Ensemble ensemble({.nranks = Rank{kRanks}, .seed = 9});
  for (const Algorithm& algorithm : all_algorithms()) {
    const Collective c = algorithm.collective;
    if (c != Collective::all_gather && c != Collective::reduce_scatter && c != Collective::all_to_all) continue;
    DeviceCall call;
    call.algorithm = &algorithm;
    call.counts = {100, 0, 317};
    if (c == Collective::all_to_all) call.counts = {5, 0, 300, 70, 1, 0, 0, 900, 16};
    const Status status = compare(world, ensemble, call);
    EXPECT_TRUE(status.ok()) << status.c_str();
  }
}

// Delayed stores of drawn order, in both protocols, with many seeds.
TEST(KernelsInBadWeather, DoWhatTheHostEngineDoes) {
  for (const std::string_view name : {"ring", "tree", "all_pairs"})
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      DeviceWorld world({.nranks = Rank{3}, .weather = {.seed = seed, .delay_stores = true}});
      Ensemble ensemble({.nranks = Rank{3}, .seed = seed});
      DeviceCall call;
      call.algorithm = find_algorithm(name, Collective::all_reduce);
      call.protocol = seed % 2 == 0 ? dev::Protocol::simple : dev::Protocol::ll;
      call.count = 700;
      call.data_seed = seed;
      const Status status = compare(world, ensemble, call);
      EXPECT_TRUE(status.ok()) << status.c_str();
    }
}

}  // namespace
}  // namespace tutti
