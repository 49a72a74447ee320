// The claim of pattern.h: whatever the order, the grouping and the rounding of partial results, one answer.
#include "perf/pattern.h"

#include <algorithm>
#include <set>

#include "base/rng.h"
#include "data.h"
#include "reduce/fold.h"

namespace tutti::perf {
namespace {

constexpr size_t kCount = 160;

using Bytes = std::vector<std::byte>;

class Answer : public testing::TestWithParam<tuttiDataType_t> {
 protected:
  template <class Test>
  void for_every_operation(Test test) {
    for (const Operation operation : all_operations()) {
      SCOPED_TRACE(operation_name(operation));
      operation_ = operation;
      test();
    }
  }

  size_t bytes() const { return kCount * type_bytes(GetParam()); }

  Bytes result(const Pattern& pattern) const {
    Bytes out(bytes());
    pattern.result(0, kCount, out.data());
    return out;
  }

  // The ranks' inputs, after this rank's factor where there is one: what an algorithm folds.
  std::vector<Bytes> contributions(const Pattern& pattern, int nranks) const {
    std::vector<Bytes> all;
    for (int rank = 0; rank < nranks; ++rank) {
      Bytes input(bytes());
      pattern.input(rank, 0, kCount, input.data());
      if (operation_ == Operation::mulsum) {
        FoldSpec spec = this->spec(nranks);
        spec.scalar_bits = mulsum_scalar_bits(GetParam(), rank);
        fold_into({&input}, spec, 0, false, input);
      }
      all.push_back(std::move(input));
    }
    return all;
  }

  FoldSpec spec(int nranks) const {
    return {static_cast<DataType>(GetParam()), static_cast<ReduceOp>(operation_), static_cast<uint32_t>(nranks), 0};
  }

  static void fold_into(const std::vector<const Bytes*>& operands, const FoldSpec& spec, int own, bool complete,
                        Bytes& out) {
    std::vector<const void*> pointers;
    for (const Bytes* operand : operands) pointers.push_back(operand->data());
    void* result = out.data();
    fold_reference(spec, pointers, own, complete, {&result, 1}, out.size() / size_of(spec.type));
  }

  // Folds groups of 1 to 4 neighbours or strangers until one is left; every partial result is rounded to the type.
  Bytes fold_at_random(std::vector<Bytes> parts, const FoldSpec& spec, Rng& rng) const {
    do {
      const size_t some = std::min<size_t>(parts.size(), 1 + rng.below(4));
      std::vector<const Bytes*> group;
      for (size_t i = 0; i < some; ++i) {
        std::swap(parts[i], parts[i + rng.below(parts.size() - i)]);
        group.push_back(&parts[i]);
      }
      Bytes out(bytes());
      fold_into(group, spec, kNoOwnOperand, some == parts.size(), out);
      if (some == parts.size()) return out;
      parts.erase(parts.begin(), parts.begin() + static_cast<long>(some));
      parts.push_back(std::move(out));
    } while (true);
  }

  Operation operation_ = Operation::sum;
};

TEST_P(Answer, IsTheSameInSequence) {
  for_every_operation([&] {
    for (const int nranks : rank_counts()) {
      const Pattern pattern(GetParam(), operation_, nranks, 7);
      const std::vector<Bytes> parts = contributions(pattern, nranks);
      Bytes sum(bytes());
      fold_into({&parts[0]}, spec(nranks), kNoOwnOperand, nranks == 1, sum);
      for (int rank = 1; rank < nranks; ++rank)
        fold_into({&sum, &parts[static_cast<size_t>(rank)]}, spec(nranks), kNoOwnOperand, rank == nranks - 1, sum);
      EXPECT_EQ(sum, result(pattern)) << nranks << " ranks";
    }
  });
}

TEST_P(Answer, IsTheSameInOnePass) {
  for_every_operation([&] {
    for (const int nranks : rank_counts()) {
      const Pattern pattern(GetParam(), operation_, nranks, 8);
      const std::vector<Bytes> parts = contributions(pattern, nranks);
      std::vector<const Bytes*> all;
      for (const Bytes& part : parts) all.push_back(&part);
      Bytes sum(bytes());
      fold_into(all, spec(nranks), kNoOwnOperand, true, sum);
      EXPECT_EQ(sum, result(pattern)) << nranks << " ranks";
    }
  });
}

TEST_P(Answer, IsTheSameInRandomTrees) {
  for_every_operation([&] {
    Rng rng(static_cast<uint64_t>(GetParam()));
    for (const int nranks : rank_counts()) {
      for (int round = 0; round < 3; ++round) {
        const Pattern pattern(GetParam(), operation_, nranks, rng.next());
        EXPECT_EQ(fold_at_random(contributions(pattern, nranks), spec(nranks), rng), result(pattern))
            << nranks << " ranks";
      }
    }
  });
}

TEST_P(Answer, DependsOnEveryRank) {
  for_every_operation([&] {
    // One element may not need a rank (a maximum does not), but some of 160 do.
    for (const int nranks : {2, 3, 4, 8}) {
      const Pattern pattern(GetParam(), operation_, nranks, 9);
      const std::vector<Bytes> parts = contributions(pattern, nranks);
      for (int missing = 0; missing < nranks; ++missing) {
        std::vector<const Bytes*> others;
        for (int rank = 0; rank < nranks; ++rank)
          if (rank != missing) others.push_back(&parts[static_cast<size_t>(rank)]);
        Bytes sum(bytes());
        fold_into(others, spec(nranks), kNoOwnOperand, true, sum);
        EXPECT_NE(sum, result(pattern)) << "rank " << missing << " of " << nranks;
      }
    }
  });
}

TEST_P(Answer, DiffersByRankPlaceAndSeed) {
  for_every_operation([&] {
    constexpr int kRanks = 4;
    const Pattern pattern(GetParam(), operation_, kRanks, 10);
    const Pattern other_seed(GetParam(), operation_, kRanks, 11);
    std::set<std::string> seen;
    for (int rank = 0; rank < kRanks; ++rank) {
      for (const size_t first : {size_t{0}, size_t{1}, kCount}) {
        std::string input(bytes(), '\0');
        pattern.input(rank, first, kCount, input.data());
        seen.insert(input);
        other_seed.input(rank, first, kCount, input.data());
        seen.insert(input);
      }
    }
    EXPECT_EQ(seen.size(), kRanks * 3u * 2u);
  });
}

TEST_P(Answer, PiecesFitTogether) {
  for_every_operation([&] {
    const Pattern pattern(GetParam(), operation_, 5, 12);
    const size_t element = type_bytes(GetParam());
    Bytes whole(bytes()), pieces(bytes());
    pattern.input(3, 100, kCount, whole.data());
    for (size_t first = 0; first < kCount; first += 7)
      pattern.input(3, 100 + first, std::min<size_t>(7, kCount - first), pieces.data() + first * element);
    EXPECT_EQ(pieces, whole);
  });
}

INSTANTIATE_TEST_SUITE_P(Pattern, Answer, testing::ValuesIn(all_types()), name_of_type);

TEST(Pattern, MovedDataIsAStreamOfItsOwnForEachRank) {
  const Pattern pattern(tuttiFloat64, Operation::none, 3, 5);
  std::set<uint64_t> words;
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<uint64_t> input(1000);
    pattern.input(rank, 0, input.size(), input.data());
    words.insert(input.begin(), input.end());
  }
  EXPECT_EQ(words.size(), 3000u);  // no word twice, so nothing can be in another's place unnoticed
}

TEST(Pattern, MovedDataMayBeCutAnywhere) {
  Bytes whole(101), pieces(101);
  fill_stream(3, 13, whole.size(), whole.data());
  for (size_t first = 0; first < pieces.size(); first += 3)
    fill_stream(3, 13 + first, std::min<size_t>(3, pieces.size() - first), pieces.data() + first);
  EXPECT_EQ(pieces, whole);
}

}  // namespace
}  // namespace tutti::perf
