// The verifier's own test: whatever single field of a plan is changed, if the outcome changes, it must say so.
//
// Whether the outcome changes is decided by brute force: the reference interpreter runs the mutant on real data, in
// place and not, with several orders of lanes. (The verifier may refuse more than that: stores in vain, races that
// these orders did not bring about.)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "algorithms/algorithm.h"
#include "base/rng.h"
#include "plan/contract.h"
#include "plan/dump.h"
#include "tests/plan/plan_fixture.h"
#include "tests/plan/reference_interpreter.h"

namespace tutti {
namespace {

std::string reference_outcome(const Shape& shape, std::span<const Plan> plans) {
  for (const bool in_place : {false, true}) {
    if (in_place && !Contract::allows_in_place(shape.collective)) continue;
    for (const uint32_t depth : {1u, 8u})
      for (const uint64_t seed : {0u, 1u, 2u, 3u})
        if (std::string trouble = run_reference(shape, plans, {in_place, depth, seed}); !trouble.empty())
          return trouble;
  }
  return {};
}

struct Counts {
  size_t mutants = 0, changed = 0, rejected = 0, escaped = 0;
};

using Mutation = std::function<void(Plan&)>;

// The values that a field is changed to: its neighbours, zero, and something far.
template <class Field>
void mutate_field(std::vector<Mutation>& mutations, Rng& rng, const Plan& plan, Field field) {
  Plan probe = plan;
  using Value = std::remove_reference_t<decltype(field(probe))>;
  const int64_t value = static_cast<int64_t>(field(probe));
  std::set<int64_t> others = {value - 1, value + 1, value + 2, 0, static_cast<int64_t>(rng.below(9))};
  others.erase(value);
  for (const int64_t other : others) mutations.push_back([=](Plan& p) { field(p) = static_cast<Value>(other); });
}

void mutate_move(std::vector<Mutation>& all, Rng& rng, const Plan& plan, size_t l, size_t m) {
  const auto field = [&](auto member) {
    mutate_field(
        all, rng, plan, [=](Plan & p) -> auto& { return p.lanes[l].moves[m].*member; });
  };
  field(&Move::recv_first), field(&Move::recv_count), field(&Move::send_first), field(&Move::send_count);
  field(&Move::local_pos), field(&Move::span), field(&Move::peer_step), field(&Move::repeat), field(&Move::complete);
  for (const auto walk : {&Move::load, &Move::store})
    for (const auto part : {&ChunkWalk::first, &ChunkWalk::step})
      mutate_field(
          all, rng, plan, [=](Plan & p) -> auto& { return p.lanes[l].moves[m].*walk.*part; });
  for (const auto buffer : {&Move::load_from, &Move::store_to})
    for (const Buffer b : {Buffer::none, Buffer::in, Buffer::out, Buffer::scratch})
      if (plan.lanes[l].moves[m].*buffer != b) all.push_back([=](Plan& p) { p.lanes[l].moves[m].*buffer = b; });
}

// Moves lost, doubled and swapped are no single fields, but what people do wrong.
void mutate_order(std::vector<Mutation>& all, const Plan& plan, size_t l, size_t m) {
  const auto at = [=](Plan& p) { return p.lanes[l].moves.begin() + static_cast<std::ptrdiff_t>(m); };
  all.push_back([=](Plan& p) { p.lanes[l].moves.erase(at(p)); });
  all.push_back([=](Plan& p) {
    const Move twice = *at(p);
    p.lanes[l].moves.insert(at(p), twice);
  });
  if (m + 1 < plan.lanes[l].moves.size()) all.push_back([=](Plan& p) { std::iter_swap(at(p), at(p) + 1); });
}

std::vector<Mutation> mutations_of(const Plan& plan, Rng& rng) {
  std::vector<Mutation> all;
  mutate_field(
      all, rng, plan, [](Plan & p) -> auto& { return p.chunks; });
  mutate_field(
      all, rng, plan, [](Plan & p) -> auto& { return p.scratch_chunks; });
  for (size_t l = 0; l < plan.lanes.size(); ++l) {
    for (size_t k = 0; k < plan.lanes[l].peers.size(); ++k)
      for (const uint32_t other : {0u, 1u, 2u, 3u, 70u}) {
        all.push_back([=](Plan& p) { p.lanes[l].peers[k].rank = Rank{other}; });
        all.push_back([=](Plan& p) { p.lanes[l].peers[k].channel = ChannelId{static_cast<uint16_t>(other)}; });
      }
    for (size_t m = 0; m < plan.lanes[l].moves.size(); ++m) {
      mutate_move(all, rng, plan, l, m);
      mutate_order(all, plan, l, m);
    }
  }
  return all;
}

void try_mutants(const Algorithm& algorithm, const Shape& shape, Rng& rng, Counts& counts) {
  const std::vector<Plan> plans = plans_of(shape, algorithm.plan);
  ASSERT_EQ(reference_outcome(shape, plans), "") << algorithm.name << " " << name_of(algorithm.collective);
  for (size_t r = 0; r < plans.size(); ++r)
    for (const Mutation& mutate : mutations_of(plans[r], rng)) {
      std::vector<Plan> mutant = plans;
      mutate(mutant[r]);
      if (mutant[r] == plans[r]) continue;
      ++counts.mutants;
      const bool accepted = verify(shape, mutant).ok();
      counts.rejected += accepted ? 0 : 1;
      const std::string trouble = reference_outcome(shape, mutant);
      if (trouble.empty()) continue;
      ++counts.changed;
      if (!accepted) continue;
      ++counts.escaped;
      ADD_FAILURE() << "the verifier accepts a mutant of " << algorithm.name << " for " << name_of(algorithm.collective)
                    << " at n = " << static_cast<uint32_t>(shape.nranks) << " whose outcome is '" << trouble
                    << "'. Rank " << r << " before:\n"
                    << to_text(plans[r]) << "after:\n"
                    << to_text(mutant[r]);
      return;
    }
}

// Every algorithm at n = 3 (no power of two, roots in the middle), and those whose pattern only unfolds later at n = 4
// or 5.
TEST(Mutation, EveryMutantThatChangesTheOutcomeIsRejected) {
  Rng rng(20240229);
  Counts counts;
  for (const Algorithm& a : all_algorithms()) {
    if (a.collective == Collective::send || a.collective == Collective::recv || a.collective == Collective::barrier)
      continue;  // the reference knows them as the collectives that they are verified as
    for (const Shape& shape : {Shape{a.collective, Rank{3}, Rank{1}, 1}, Shape{a.collective, Rank{2}, Rank{0}, 2},
                               Shape{a.collective, Rank{5}, Rank{2}, 1}})
      if (shape.nranks != 5 || a.name == "tree" || a.name.find("doubling") != std::string_view::npos)
        try_mutants(a, shape, rng, counts);
  }
  fmt::print("{} mutants: {} change the outcome, {} were rejected, {} escaped\n", counts.mutants, counts.changed,
             counts.rejected, counts.escaped);
  EXPECT_EQ(counts.escaped, 0u);
  EXPECT_GT(counts.changed, 5000u);
  EXPECT_GE(counts.rejected, counts.changed);
  EXPECT_LT(counts.rejected, counts.mutants) << "a verifier that rejects everything proves nothing";
}

}  // namespace
}  // namespace tutti
