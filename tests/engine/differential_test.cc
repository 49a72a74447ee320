// The engine against the definition: every type with every operation; and the same bits on all ranks where sums round.
#include <gtest/gtest.h>

#include "tests/engine/call.h"
#include "tests/engine/rows.h"

namespace tutti {
namespace {

bool reduces(const Algorithm& a) { return is_reduction(a.collective); }

class Reductions : public testing::TestWithParam<const Algorithm*> {};

TEST_P(Reductions, AreExactForEveryTypeAndOperation) {
  for (const uint32_t n : {3u, 4u})
    for (const LinkKind links : {LinkKind::mapped, LinkKind::put, LinkKind::shared}) {
      Ensemble ensemble({.nranks = Rank{n}, .links = links, .seed = n});
      uint32_t sequence = 0;
      for (int type = 0; type < kDataTypeCount; ++type)
        for (int op = 0; op < kReduceOpCount; ++op) {
          Call call;
          call.algorithm = GetParam();
          call.type = static_cast<DataType>(type);
          call.op = static_cast<ReduceOp>(op);
          call.counts = {131};  // a tail for every vector width
          call.in_place = sequence % 2 == 1;
          call.data_seed = sequence;
          const Status status = perform(ensemble, call, sequence++);
          EXPECT_TRUE(status.ok()) << describe(ensemble.options()) << ": " << status.c_str();
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Rows, Reductions, testing::ValuesIn(algorithms_that(reduces)), name_of_row);

class Agreement : public testing::TestWithParam<const Algorithm*> {};

TEST_P(Agreement, RoundedSumsHaveTheSameBitsOnAllRanks) {
  for (const uint32_t n : {2u, 3u, 4u, 5u, 6u, 7u, 8u})
    for (const LinkKind links : {LinkKind::mapped, LinkKind::put, LinkKind::mixed, LinkKind::shared}) {
      Ensemble ensemble({.nranks = Rank{n}, .links = links, .seed = n});
      uint32_t sequence = 0;
      for (const DataType type : {DataType::float16, DataType::bfloat16, DataType::float32, DataType::float64,
                                  DataType::float8e4m3, DataType::float8e5m2})
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::avg, ReduceOp::premul_sum}) {
          Call call;
          call.algorithm = GetParam();
          call.type = type;
          call.op = op;
          call.counts = {257};
          call.data = Data::rounding;
          call.data_seed = sequence;
          const Status status = perform(ensemble, call, sequence++);
          EXPECT_TRUE(status.ok()) << describe(ensemble.options()) << ": " << status.c_str();
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Rows, Agreement, testing::ValuesIn(algorithms_that([](const Algorithm& a) {
                           return a.collective == Collective::all_reduce;
                         })),
                         name_of_row);

}  // namespace
}  // namespace tutti
