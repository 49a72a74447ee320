#include "plan/dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/rng.h"
#include "tests/plan/plan_fixture.h"

namespace tutti {
namespace {

using testing::HasSubstr;

TEST(Dump, EveryPlanIsReadBackAsItWas) {
  for (const Algorithm& a : all_algorithms())
    for (const uint32_t n : {1u, 2u, 3u, 4u, 7u, 12u})
      for (const uint32_t lanes : {1u, 2u}) {
        const std::vector<Plan> plans = plans_for(a, {a.collective, Rank{n}, Rank{n / 2}, lanes});
        const Result<std::vector<Plan>> back = parse_plans(to_text(plans));
        ASSERT_TRUE(back.ok()) << back.status().c_str();
        EXPECT_EQ(back.value(), plans);
        const Result<Plan> one = parse_plan(to_text(plans[0]));
        ASSERT_TRUE(one.ok()) << one.status().c_str();
        EXPECT_EQ(one.value(), plans[0]);
      }
}

TEST(Dump, MovesWithAnyFieldsAreReadBack) {
  Rng rng(7);
  for (int i = 0; i < 2000; ++i) {
    const auto small = [&] { return static_cast<uint16_t>(rng.below(4)); };
    Move m;
    m.recv_first = small(), m.recv_count = small(), m.send_first = small(), m.send_count = small();
    m.local_pos = small(), m.span = small(), m.repeat = small(), m.complete = small() & 1;
    m.peer_step = static_cast<int16_t>(small() - 2);
    m.load_from = static_cast<Buffer>(small()), m.store_to = static_cast<Buffer>(small());
    m.load = {small() - 1, small() - 2}, m.store = {small() - 1, static_cast<int32_t>(rng.next())};
    Plan plan{.chunks = 9, .scratch_chunks = small(), .lanes = {{.peers = {}, .moves = {m}}}};
    const Result<Plan> back = parse_plan(to_text(plan));
    ASSERT_TRUE(back.ok()) << to_text(plan) << back.status().c_str();
    ASSERT_EQ(back.value(), plan) << to_text(plan) << to_text(back.value());
  }
}

TEST(Parse, ErrorsNameLineAndColumn) {
  const auto error = [](std::string_view text) { return std::string(parse_plan(text).status().message()); };
  EXPECT_EQ(error(""), "line 1, column 1: 'plan chunks ...' is expected, and the text ends");
  EXPECT_EQ(error("plan\n"), "line 1, column 5: chunks is expected, and the line ends");
  EXPECT_EQ(error("plan chunks x"), "line 1, column 13: a number of chunks is expected, not 'x'");
  EXPECT_EQ(error("plan chunks -1"),
            "line 1, column 13: a number of chunks -1 is out of range; 0 .. 4294967295 is allowed");
  EXPECT_EQ(error("plan chunks 1\nmove load in[0]"), "line 2, column 6: a move comes after 'lane peers ...'");
  EXPECT_EQ(error("plan chunks 1\nlane peers 1\n"), "line 2, column 13: ':' is expected, and the line ends");
  EXPECT_EQ(error("plan chunks 1\n\n# note\nlane peers 1:0\n  move load on[0]"),
            "line 5, column 13: none, in, out or scratch is expected, not 'on[0]'");
  EXPECT_EQ(error("plan chunks 1\nlane peers 1:0\nmove load in[0+]"),
            "line 3, column 15: a step or ']' is expected, not '+]'");
  EXPECT_THAT(error("plan chunks 1\nlane peers 1:0\nmove send 0 send 0"), HasSubstr("line 3, column 13: "));
  EXPECT_THAT(error("plan chunks 1\nlane peers 1:0\nmove send 70000"), HasSubstr("0 .. 65535 is allowed"));
  EXPECT_THAT(error("plan chunks 1\nplan chunks 1"), HasSubstr("a second plan needs a line 'rank 1'"));
  EXPECT_THAT(error("rank 1\nplan chunks 1"), HasSubstr("line 1, column 7: rank 0 is expected here"));
  EXPECT_THAT(error("rank 0\nlane peers"), HasSubstr("a lane comes after"));
  EXPECT_THAT(error("rank 0\nplan chunks 1\nrank 1\n"), HasSubstr("line 4, column 1"));
  EXPECT_THAT(error("rank 0\nplan chunks 1\nrank 1\nplan chunks 1"), HasSubstr("the text holds 2 plans"));
  EXPECT_THAT(error("movex"), HasSubstr("rank, plan, lane or move is expected, not 'movex'"));
}

// Whatever the bytes, an answer or an error.
TEST(Parse, SurvivesDamagedText) {
  const Algorithm* ring = find_algorithm("ring", Collective::all_reduce);
  const std::string text = to_text(plans_of({Collective::all_reduce, Rank{3}, Rank{0}, 1}, ring->plan));
  Rng rng(3);
  size_t refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = text;
    for (uint64_t k = rng.below(4) + 1; k > 0; --k)
      damaged[rng.below(damaged.size())] = "0123456789[]+-: \nmovelad\xff"[rng.below(25)];
    damaged.resize(damaged.size() - rng.below(20));
    refused += parse_plans(damaged).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 1000u);
}

TEST(Json, HoldsTheFieldsOfThePlan) {
  const Algorithm* ring = find_algorithm("ring", Collective::all_reduce);
  const std::vector<Plan> plans = plans_of({Collective::all_reduce, Rank{4}, Rank{0}, 1}, ring->plan);
  const nlohmann::json all = nlohmann::json::parse(to_json(plans));
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[1], nlohmann::json::parse(to_json(plans[1])));
  const nlohmann::json& lane = all[1]["lanes"][0];
  EXPECT_EQ(all[1]["chunks"], 4);
  EXPECT_EQ(lane["peers"][0]["rank"], 0);
  EXPECT_EQ(lane["moves"].size(), 5u);
  EXPECT_EQ(lane["moves"][1]["load"], nlohmann::json::parse(R"({"buffer": "in", "first": 0, "step": -1})"));
  EXPECT_EQ(lane["moves"][1]["repeat"], 2);
  EXPECT_EQ(lane["moves"][2]["complete"], true);
  EXPECT_FALSE(lane["moves"][1].contains("complete"));
}

TEST(Dot, HasAnEdgeForEveryFifo) {
  const Algorithm* ring = find_algorithm("ring", Collective::all_reduce);
  const std::string dot = to_dot(plans_of({Collective::all_reduce, Rank{3}, Rank{0}, 1}, ring->plan));
  for (const char* edge : {"r0l0 -> r1l0", "r1l0 -> r2l0", "r2l0 -> r0l0"})
    EXPECT_THAT(dot, HasSubstr(std::string(edge) + " [label=\"channel 0: 4\"]"));
  EXPECT_THAT(dot, testing::Not(HasSubstr("r1l0 -> r0l0")));
}

// Golden plans at n = 4: a change of any of them is a change of what goes over the wire. To accept it, run this test
// with UPDATE_GOLDEN=1 and read the difference.
TEST(Golden, PlansForFourRanks) {
  std::map<std::string, std::string> texts;
  for (const Algorithm& a : all_algorithms())
    texts[std::string(a.name)] += fmt::format("# {} for {}\n", a.name, name_of(a.collective)) +
                                  to_text(plans_for(a, {a.collective, Rank{4}, Rank{1}, 1})) + '\n';
  for (const auto& [name, text] : texts) {
    const auto path = std::filesystem::path(GOLDEN_FOLDER) / (name + ".txt");
    if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
    std::ifstream file(path);
    ASSERT_TRUE(file) << path << " is missing";
    std::ostringstream golden;
    golden << file.rdbuf();
    EXPECT_EQ(golden.str(), text) << path;
  }
}

}  // namespace
}  // namespace tutti
