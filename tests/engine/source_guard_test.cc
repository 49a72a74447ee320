// What put links still read is not overwritten: the guard by itself, and in-place calls over wires that read late.
#include <gtest/gtest.h>

#include <array>

#include "tests/engine/call.h"

namespace tutti {
namespace {

// A put link that retires what it is told to.
class ScriptedLink final : public SendLink {
 public:
  bool mapped() const override { return false; }
  Result<Room> claim(size_t) override { return fail(tuttiInternalError, "not mapped"); }
  void post(size_t, const Stamp&) override {}
  Result<bool> put(std::span<const ConstPiece>, const Stamp&) override { return true; }
  uint64_t retired() override { return retired_count; }
  void detach() override {
    ++detaches;
    retired_count = UINT64_MAX;
  }
  uint64_t retired_count = 0;
  int detaches = 0;
};

class Guard : public testing::Test {
 protected:
  Guard() {
    for (size_t i = 0; i < 2; ++i) {
      auto link = std::make_unique<ScriptedLink>();
      links[i] = link.get();
      ends[i] = {std::move(link), 0, Rank{static_cast<uint32_t>(i)}};
    }
  }
  std::array<std::byte, 256> memory{};
  std::byte* at(size_t i) { return memory.data() + i; }
  std::array<SendEnd, 2> ends;
  std::array<ScriptedLink*, 2> links{};
  SourceGuard guard;
};

TEST_F(Guard, DetachesTheLinkThatReadsAnyOfTheBytes) {
  struct Write {
    size_t begin, bytes;
    bool meets;
  };
  for (const Write& w : {Write{100, 50, true},
                         {120, 1, true},
                         {90, 11, true},
                         {149, 20, true},
                         {0, 256, true},
                         {0, 100, false},
                         {150, 20, false},
                         {120, 0, false}}) {
    *links[0] = ScriptedLink();
    SourceGuard fresh;
    fresh.add(&ends[0], 0, at(100), 50);
    fresh.protect(at(w.begin), w.bytes);
    EXPECT_EQ(links[0]->detaches, w.meets ? 1 : 0) << w.begin << " + " << w.bytes;
  }
}

TEST_F(Guard, LeavesLinksAloneThatHaveReadOrReadElsewhere) {
  guard.add(&ends[0], 0, at(0), 64);
  guard.add(&ends[1], 3, at(128), 64);
  links[0]->retired_count = 1;
  guard.protect(at(0), 64);
  EXPECT_EQ(links[0]->detaches, 0);
  guard.protect(at(130), 1);
  EXPECT_EQ(links[0]->detaches, 0);
  EXPECT_EQ(links[1]->detaches, 1);
}

TEST_F(Guard, IsClearOnceAllMessagesAreRetired) {
  EXPECT_TRUE(guard.clear());
  guard.add(&ends[0], 4, at(0), 64);
  guard.add(&ends[1], 0, at(0), 0);  // of no bytes: nothing to read
  links[0]->retired_count = 4;       // messages 0 to 3
  EXPECT_FALSE(guard.clear());
  std::vector<Rank> readers;
  guard.for_each_end([&](const SendEnd* end) { readers.push_back(end->peer); });
  EXPECT_EQ(readers, std::vector<Rank>{Rank{0}});
  links[0]->retired_count = 5;
  EXPECT_TRUE(guard.clear());
}

TEST_F(Guard, ForgetsNoneOfManyMessages) {
  for (uint64_t m = 0; m < 100; ++m) guard.add(&ends[m % 2], m / 2, at(m), 1);
  links[0]->retired_count = 49;  // all but its last, which reads byte 98
  links[1]->retired_count = 50;
  guard.protect(at(0), 98);
  guard.protect(at(99), 100);
  EXPECT_EQ(links[0]->detaches + links[1]->detaches, 0);
  EXPECT_FALSE(guard.clear());
  guard.protect(at(98), 1);
  EXPECT_EQ(links[0]->detaches, 1);
  EXPECT_TRUE(guard.clear());
}

// ---- in place over wires that read their source long after put()

class LateReading : public testing::TestWithParam<const char*> {};

TEST_P(LateReading, LeavesInPlaceResultsRight) {
  const Algorithm* algorithm = find_algorithm(GetParam(), Collective::all_reduce);
  ASSERT_NE(algorithm, nullptr);
  uint64_t detaches = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    EnsembleOptions options{.nranks = Rank{2 + static_cast<uint32_t>(seed % 4)}, .links = LinkKind::put, .seed = seed};
    options.network.latency_max = kMillisecond;
    Ensemble ensemble(options);
    for (uint32_t sequence = 0; sequence < 3; ++sequence) {
      const Status status = perform(
          ensemble,
          {.algorithm = algorithm, .type = DataType::uint32, .in_place = true, .counts = {300}, .data_seed = seed},
          sequence);
      ASSERT_TRUE(status.ok()) << describe(options) << ": " << status.c_str();
    }
    for (uint32_t r = 0; r < options.nranks; ++r) detaches += ensemble.links(Rank{r}).detaches();
  }
  // Else the wires were never late, and the test would show nothing.
  EXPECT_GT(detaches, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, LateReading,
                         testing::Values("ring", "tree", "all_pairs_one_shot", "recursive_doubling",
                                         "halving_doubling"),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace tutti
