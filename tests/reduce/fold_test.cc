// Every kernel against the reference, bit for bit: instruction sets x types x operations x operand counts x lengths x
// alignments, with all the values that make floats difficult.
#include "reduce/fold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "fold_inputs.h"
#include "reduce/stream.h"

namespace tutti {
namespace {

constexpr size_t kOperandCounts[] = {1, 2, 3, 4, 5, 8, 17};
constexpr size_t kLengths[] = {0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000};

std::string describe(const FoldSpec& spec, size_t operand_count, size_t count) {
  return std::string(name_of(spec.type)) + " " + std::string(name_of(spec.op)) + " of " +
         std::to_string(operand_count) + " operands, " + std::to_string(count) + " elements, " +
         std::string(fold_target());
}

// Operands and results of one fold.
struct Workspace {
  std::vector<Buffer> operands, results;
  std::vector<const void*> operand_pointers;
  std::vector<void*> result_pointers;

  Workspace(DataType type, size_t operand_count, size_t result_count, size_t count, size_t misalignment, Rng& rng) {
    const size_t bytes = count * size_of(type);
    // Each at another address modulo 64.
    for (size_t j = 0; j < operand_count; ++j) operands.emplace_back(bytes, misalignment * (j + 1) % 64);
    for (size_t j = 0; j < result_count; ++j) results.emplace_back(bytes, misalignment * (j + 3) % 64);
    for (const Buffer& buffer : operands) {
      fill(type, rng, buffer);
      operand_pointers.push_back(buffer.data());
    }
    for (const Buffer& buffer : results) {
      std::memset(buffer.data(), 0xcd, bytes);
      result_pointers.push_back(buffer.data());
    }
  }
};

std::vector<uint8_t> reference_bytes(const FoldSpec& spec, const Workspace& work, int own, bool complete,
                                     size_t count) {
  Buffer expected(count * size_of(spec.type), 0);
  void* const results[] = {expected.data()};
  fold_reference(spec, work.operand_pointers, own, complete, results, count);
  return expected.bytes();
}

FoldSpec random_spec(DataType type, ReduceOp op, Rng& rng) {
  FoldSpec spec{type, op, static_cast<uint32_t>(1 + rng.below(rng.below(2) ? 9 : 100'000)), 0};
  const Buffer scalar(size_of(type), 0);
  fill(type, rng, scalar);
  std::memcpy(&spec.scalar_bits, scalar.data(), scalar.size());
  return spec;
}

class FoldKernel : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(forced_.forced());
    ASSERT_EQ(fold_target(), GetParam());
  }
  ForcedTarget forced_{GetParam()};
};

TEST_P(FoldKernel, EqualsTheReferenceBitForBit) {
  Rng rng(1);
  for (DataType type : kAllTypes)
    for (ReduceOp op : kAllOps)
      for (size_t operand_count : kOperandCounts)
        for (size_t count : kLengths) {
          const FoldSpec spec = random_spec(type, op, rng);
          const bool complete = rng.below(2) == 1;
          const int own = static_cast<int>(rng.below(operand_count + 1)) - 1;
          const size_t misalignment = rng.below(2) * (1 + rng.below(63));
          const Workspace work(type, operand_count, 1 + rng.below(3), count, misalignment, rng);
          const std::vector<uint8_t> expected = reference_bytes(spec, work, own, complete, count);
          fold(spec, work.operand_pointers, own, complete, work.result_pointers, count);
          for (const Buffer& result : work.results)
            ASSERT_EQ(result.bytes(), expected) << describe(spec, operand_count, count) << ", own " << own
                                                << ", complete " << complete << ", misalignment " << misalignment;
        }
}

// Results in the cache and past it, at addresses that allow to stream as they come and at others.
TEST_P(FoldKernel, StreamedResultsAreTheSame) {
  Rng rng(5);
  for (DataType type : kAllTypes)
    for (ReduceOp op : kAllOps)
      for (size_t operand_count : {1, 2, 3, 17})
        for (size_t count : {1, 15, 64, 257, 3000}) {
          const FoldSpec spec = random_spec(type, op, rng);
          const size_t misalignment = std::array<size_t, 4>{0, 1, 8, 32}[rng.below(4)];
          const size_t streamed_count = 1 + rng.below(3);
          const Workspace work(type, operand_count, streamed_count + rng.below(2), count, misalignment, rng);
          const std::vector<uint8_t> expected = reference_bytes(spec, work, 0, true, count);
          const std::span<void* const> results = work.result_pointers;
          fold_streaming(spec, work.operand_pointers, 0, true, results.subspan(streamed_count),
                         results.first(streamed_count), count);
          for (const Buffer& result : work.results)
            ASSERT_EQ(result.bytes(), expected) << describe(spec, operand_count, count) << ", " << streamed_count
                                                << " streamed, misalignment " << misalignment;
        }
}

// Pairs of all values of the 8-bit types, and each value of the 16-bit types with a random one.
TEST_P(FoldKernel, EqualsTheReferenceForAllSmallValues) {
  Rng rng(2);
  for (DataType type : kAllTypes) {
    if (size_of(type) > 2) continue;
    constexpr size_t kCount = 1 << 16;
    const Workspace work(type, 2, 1, kCount, 0, rng);
    for (size_t i = 0; i < kCount; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      std::memcpy(work.operands[0].data() + i * size_of(type), &bits, size_of(type));
      if (size_of(type) == 1) work.operands[1].data()[i] = static_cast<uint8_t>(i >> 8);
    }
    for (ReduceOp op : kAllOps) {
      const FoldSpec spec = random_spec(type, op, rng);
      const std::vector<uint8_t> expected = reference_bytes(spec, work, 0, true, kCount);
      fold(spec, work.operand_pointers, 0, true, work.result_pointers, kCount);
      ASSERT_EQ(work.results[0].bytes(), expected) << describe(spec, 2, kCount);
    }
  }
}

TEST_P(FoldKernel, DividesAsTheReference) {
  Rng rng(3);
  for (DataType type : kAllTypes)
    for (uint32_t nranks : {1u, 2u, 3u, 7u, 64u, 255u, 1000u, 0x7fffffffu, 0xffffffffu}) {
      constexpr size_t kCount = 5000;
      const Workspace work(type, 3, 1, kCount, 0, rng);
      const FoldSpec spec{type, ReduceOp::avg, nranks, 0};
      const std::vector<uint8_t> expected = reference_bytes(spec, work, kNoOwnOperand, true, kCount);
      fold(spec, work.operand_pointers, kNoOwnOperand, true, work.result_pointers, kCount);
      ASSERT_EQ(work.results[0].bytes(), expected) << describe(spec, 3, kCount) << ", divided by " << nranks;
    }
}

TEST_P(FoldKernel, ResultMayBeAnyOperand) {
  Rng rng(4);
  for (DataType type : kAllTypes)
    for (ReduceOp op : kAllOps)
      for (size_t operand_count : {1, 2, 3, 4, 5})
        for (size_t aliased = 0; aliased < operand_count; ++aliased)
          for (size_t count : {1, 17, 257}) {
            const FoldSpec spec = random_spec(type, op, rng);
            Workspace work(type, operand_count, 1, count, 8, rng);
            const std::vector<uint8_t> expected = reference_bytes(spec, work, 0, true, count);
            work.result_pointers.push_back(work.operands[aliased].data());
            fold(spec, work.operand_pointers, 0, true, work.result_pointers, count);
            ASSERT_EQ(work.results[0].bytes(), expected) << describe(spec, operand_count, count);
            ASSERT_EQ(work.operands[aliased].bytes(), expected)
                << describe(spec, operand_count, count) << " into operand " << aliased;
          }
}

TEST_P(FoldKernel, OneOperandTwiceIsTwoOperands) {
  Rng rng(5);
  const Workspace work(DataType::int32, 1, 1, 100, 0, rng);
  const void* const twice[] = {work.operand_pointers[0], work.operand_pointers[0]};
  const FoldSpec spec{DataType::int32, ReduceOp::sum};
  fold(spec, twice, kNoOwnOperand, false, work.result_pointers, 100);
  for (size_t i = 0; i < 100; ++i) {
    uint32_t in, out;
    std::memcpy(&in, work.operands[0].data() + 4 * i, 4);
    std::memcpy(&out, work.results[0].data() + 4 * i, 4);
    ASSERT_EQ(out, 2 * in);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FoldKernel, testing::ValuesIn(fold_targets()),
                         [](const auto& test) { return std::string(test.param); });

TEST(FoldTargets, HoldWhatTheProcessorHasAndThePlainCode) {
  const std::vector<std::string_view> targets = fold_targets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(fold_target(), targets.front()) << "the best one is in use when none is forced";
#ifdef __x86_64__
  EXPECT_THAT(targets, testing::Contains("SCALAR"));
  EXPECT_TRUE(!__builtin_cpu_supports("avx2") || testing::Value(targets, testing::Contains("AVX2")));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_TRUE(!__builtin_cpu_supports("avx512bw") || testing::Value(targets, testing::Contains("AVX3")));
#endif
#endif
}

TEST(FoldTargets, ForcingAnUnknownOneChangesNothing) {
  const ForcedTarget forced(fold_targets().back());
  ASSERT_TRUE(forced.forced());
  EXPECT_FALSE(force_fold_target("MMX"));
  EXPECT_EQ(fold_target(), fold_targets().back());
}

}  // namespace
}  // namespace tutti
