// Ranks that make different calls: every rank gets the same error, which names two ranks and what each of them called.
#include "ranks.h"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// How the odd rank's call differs, and the two calls in the library's words.
struct Difference {
  const char* name;
  tuttiResult_t (*odd)(const Member&, int32_t* values);
  tuttiResult_t (*others)(const Member&, int32_t* values);
  const char* odd_words;
  const char* other_words;
  friend void PrintTo(const Difference& difference, std::ostream* out) { *out << difference.name; }
};

const Difference kDifferences[] = {
    {"Count",
     [](const Member& m, int32_t* v) { return tuttiAllReduce(v, v, 8, tuttiInt32, tuttiSum, m.comm, nullptr); },
     [](const Member& m, int32_t* v) { return tuttiAllReduce(v, v, 9, tuttiInt32, tuttiSum, m.comm, nullptr); },
     "all_reduce of 8 int32, sum", "all_reduce of 9 int32, sum"},
    {"CountNoneAndSome",
     [](const Member& m, int32_t* v) { return tuttiAllReduce(v, v, 0, tuttiInt32, tuttiSum, m.comm, nullptr); },
     [](const Member& m, int32_t* v) { return tuttiAllReduce(v, v, 9, tuttiInt32, tuttiSum, m.comm, nullptr); },
     "all_reduce of 0 int32, sum", "all_reduce of 9 int32, sum"},
    // Different enough that the ranks also choose different algorithms and numbers of messages.
    {"CountSmallAndLarge",
     [](const Member& m, int32_t* v) { return tuttiAllReduce(v, v, 8, tuttiInt32, tuttiSum, m.comm, nullptr); },
     [](const Member& m, int32_t* v) { return tuttiAllReduce(v, v, 300'000, tuttiInt32, tuttiSum, m.comm, nullptr); },
     "all_reduce of 8 int32, sum", "all_reduce of 300000 int32, sum"},
    {"Type",
     [](const Member& m, int32_t* v) { return tuttiAllReduce(v, v, 9, tuttiFloat32, tuttiSum, m.comm, nullptr); },
     [](const Member& m, int32_t* v) { return tuttiAllReduce(v, v, 9, tuttiInt32, tuttiSum, m.comm, nullptr); },
     "all_reduce of 9 float, sum", "all_reduce of 9 int32, sum"},
    {"Operation",
     [](const Member& m, int32_t* v) { return tuttiAllReduce(v, v, 9, tuttiInt32, tuttiMax, m.comm, nullptr); },
     [](const Member& m, int32_t* v) { return tuttiAllReduce(v, v, 9, tuttiInt32, tuttiSum, m.comm, nullptr); },
     "all_reduce of 9 int32, max", "all_reduce of 9 int32, sum"},
    {"Root", [](const Member& m, int32_t* v) { return tuttiBroadcast(v, v, 9, tuttiInt32, 1, m.comm, nullptr); },
     [](const Member& m, int32_t* v) { return tuttiBroadcast(v, v, 9, tuttiInt32, 0, m.comm, nullptr); },
     "broadcast of 9 int32, root 1", "broadcast of 9 int32, root 0"},
    {"RootOfReduce",
     [](const Member& m, int32_t* v) { return tuttiReduce(v, v, 9, tuttiInt32, tuttiSum, 1, m.comm, nullptr); },
     [](const Member& m, int32_t* v) { return tuttiReduce(v, v, 9, tuttiInt32, tuttiSum, 0, m.comm, nullptr); },
     "reduce of 9 int32, sum, root 1", "reduce of 9 int32, sum, root 0"},
    {"Collective", [](const Member& m, int32_t* v) { return tuttiBroadcast(v, v, 9, tuttiInt32, 0, m.comm, nullptr); },
     [](const Member& m, int32_t* v) { return tuttiAllReduce(v, v, 9, tuttiInt32, tuttiSum, m.comm, nullptr); },
     "broadcast of 9 int32, root 0", "all_reduce of 9 int32, sum"},
    {"BarrierAndGather", [](const Member& m, int32_t*) { return tuttiBarrier(m.comm, nullptr); },
     [](const Member& m, int32_t* v) { return tuttiAllGather(v + m.rank, v, 1, tuttiInt32, m.comm, nullptr); },
     "barrier", "all_gather of 1 int32"},
    {"FixedAndVariable",
     [](const Member& m, int32_t* v) {
       const size_t counts[4] = {1, 1, 1, 1};
       return tuttiAllGatherV(v + m.rank, v, counts, nullptr, tuttiInt32, m.comm, nullptr);
     },
     [](const Member& m, int32_t* v) { return tuttiAllGather(v + m.rank, v, 1, tuttiInt32, m.comm, nullptr); },
     "all_gather (v) of int32", "all_gather of 1 int32"},
};

class Disagreement : public testing::TestWithParam<std::tuple<World, Difference>> {};

// A call may succeed where its part was done before the difference showed, as a small broadcast's may at its root. The
// next call fails then; the second barrier, since a first could itself be the odd one out.
std::string problem_soon(const Member& me, tuttiResult_t result) {
  for (int k = 0; k < 2 && result == tuttiSuccess; ++k) result = tuttiBarrier(me.comm, nullptr);
  return problem(result);
}

// Both calls; or one of them and the barrier after it, where the rank that speaks cannot know what came before that.
testing::Matcher<std::string> both_calls(const Difference& d) {
  return AnyOf(AllOf(HasSubstr(d.odd_words), HasSubstr(d.other_words)),
               AllOf(AnyOf(HasSubstr(d.odd_words), HasSubstr(d.other_words)), HasSubstr("in operation 1, barrier")));
}

TEST_P(Disagreement, IsAnErrorOnAllRanksThatNamesBothCalls) {
  const auto& [world, difference] = GetParam();
  const Environment environment{{"TUTTI_TRANSPORT", world.transport}};
  const Ranks ranks(world.n);
  const int odd = world.n - 1;
  const std::vector<std::string> texts = ranks.each([&, d = difference](const Member& me) {
    std::vector<int32_t> values(300'000, 1);
    return problem_soon(me, me.rank == odd ? d.odd(me, values.data()) : d.others(me, values.data()));
  });
  const auto names_both = both_calls(difference);
  EXPECT_THAT(
      texts, Each(AllOf(StartsWith("invalid usage"), HasSubstr("rank " + std::to_string(odd) + " (host"), names_both)));
  for (int r = 0; r < ranks.size(); ++r) {
    tuttiResult_t latched = tuttiSuccess;
    EXPECT_DONE(tuttiCommGetAsyncError(ranks[r], &latched));
    EXPECT_EQ(latched, tuttiInvalidUsage);
    EXPECT_THAT(tuttiGetLastError(ranks[r]), names_both);
    // Every later call returns the same at once: nobody else has to come.
    int32_t value = 0;
    EXPECT_THAT(problem(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, ranks[r], nullptr)), names_both);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Disagreement,
                         testing::Combine(testing::ValuesIn(worlds({2, 4})), testing::ValuesIn(kDifferences)),
                         [](const auto& parameters) {
                           return std::string(std::get<1>(parameters.param).name) + "_" +
                                  std::get<0>(parameters.param).transport + "_" +
                                  std::to_string(std::get<0>(parameters.param).n);
                         });

// The same set of calls in another order.
TEST(DisagreementOfOrder, IsAnError) {
  const Environment environment;
  const Ranks ranks(3);
  const std::vector<std::string> texts = ranks.each([](const Member& me) {
    int32_t value = 1;
    const auto all_reduce = [&] { return tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, me.comm, nullptr); };
    const tuttiResult_t first = me.rank == 1 ? tuttiBarrier(me.comm, nullptr) : all_reduce();
    if (first != tuttiSuccess) return problem(first);
    return problem(me.rank == 1 ? all_reduce() : tuttiBarrier(me.comm, nullptr));
  });
  EXPECT_THAT(texts, Each(AllOf(StartsWith("invalid usage"), HasSubstr("barrier"), HasSubstr("all_reduce"))));
}

using WorldsThatDisagree = WorldTest;

// Each root has only sent and nobody waits for anything: no call of the communicator's fails, but the data is not what the
// ranks think. The last to finalize hears of it.
TEST_P(WorldsThatDisagree, AboutTheRootWithoutWaitingHearOfItAtTheEnd) {
  const Ranks ranks(2);
  std::vector<int32_t> values(2, 0);
  for (int r : {0, 1})
    EXPECT_DONE(tuttiBroadcast(&values[static_cast<size_t>(r)], &values[static_cast<size_t>(r)], 1, tuttiInt32, r,
                               ranks[r], nullptr));
  EXPECT_DONE(tuttiCommFinalize(ranks[0]));
  EXPECT_THAT(problem(tuttiCommFinalize(ranks[1])),
              AllOf(StartsWith("invalid usage"), HasSubstr("broadcast of 1 int32, root 0"),
                    HasSubstr("broadcast of 1 int32, root 1")));
  // And so does the other, where it asks.
  tuttiResult_t error = tuttiSuccess;
  EXPECT_DONE(tuttiCommGetAsyncError(ranks[0], &error));
  EXPECT_EQ(error, tuttiInvalidUsage);
}

// Rank 1 has only sent, to the root that it knows, and leaves; rank 0 takes itself for the root and waits for it.
TEST_P(WorldsThatDisagree, AboutTheRootWithOneThatHasLeftNameBoth) {
  Ranks ranks(3);
  const std::vector<std::string> texts = ranks.each([&](const Member& me) -> std::string {
    int32_t value = 1;
    const std::string text =
        problem(tuttiReduce(&value, &value, 1, tuttiInt32, tuttiSum, me.rank == 0 ? 0 : 2, me.comm, nullptr));
    if (me.rank == 1 && text.empty()) ranks.destroy(me.rank);
    return text;
  });
  const auto names_both = AllOf(StartsWith("invalid usage"), HasSubstr("reduce of 1 int32, sum, root 0"),
                                HasSubstr("reduce of 1 int32, sum, root 2"));
  EXPECT_THAT(texts, ElementsAre(names_both, AnyOf("", names_both), names_both));
}

INSTANTIATE_TEST_SUITE_P(Worlds, WorldsThatDisagree, testing::ValuesIn(worlds({2})), world_name);

}  // namespace
}  // namespace tutti::test
