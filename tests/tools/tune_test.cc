// The fit of `tutti tune`, on times that were made up from known parameters.
#include "tutti/tune.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "tune/predict.h"

namespace tutti::tune {
namespace {

constexpr std::string_view kFields[] = {"mapped_latency_ns", "mapped_message_ns", "mapped_send_ns_per_kib",
                                        "fold_ns_per_kib",   "store_ns_per_kib",  "handover_ns"};

Parameters usual() { return built_in_parameters(MachineClass::one_last_level_cache); }

// Elsewhere by factors of up to 3, up and down.
Parameters machine() {
  Parameters p = usual();
  double factor = 1;
  for (const ParameterField& field : parameter_fields()) {
    if (std::ranges::find(kFields, field.name) == std::end(kFields)) continue;
    factor = factor > 1 ? 1 / factor : 3 - (factor < 1 ? 1 / factor - 1 : 0) / 2;
    field.of(p) *= factor;
  }
  return p;
}

// What `tutti tune` would have measured on `parameters`, off by up to `noise`.
std::vector<Observation> observations_of(const Parameters& parameters, double noise) {
  Rng rng(3);
  std::vector<Observation> all;
  for (const Experiment& e : plan_experiments(2, 2)) {
    if (e.transport != "shm") continue;
    for (const uint64_t bytes : e.bytes) {
      Observation o{.algorithm = find_algorithm(e.algorithm, Collective::all_reduce),
                    .lanes = e.lanes,
                    .tile_bytes = e.tile_bytes,
                    .bytes = bytes,
                    .seconds = 1};
      o.facts.nranks = Rank{e.nranks};
      o.facts.crowded_ranks = e.nranks;
      o.facts.crowded_cores = 2;
      o.facts.l2_bytes = 512 << 10;
      o.seconds = ratio(o, parameters) * (1 + noise * (static_cast<double>(rng.below(2001)) / 1000 - 1));
      all.push_back(o);
    }
  }
  return all;
}

TEST(TuneFit, FindsWhatTheTimesWereMadeFrom) {
  const std::vector<Observation> observations = observations_of(machine(), 0);
  EXPECT_GT(misfit(observations, usual()), 1.3);
  const Parameters found = fit(observations, usual(), kFields);
  EXPECT_LT(misfit(observations, found), 1.05);
}

TEST(TuneFit, IsNotLedAstrayByNoiseAndAWildTime) {
  std::vector<Observation> observations = observations_of(machine(), 0.1);
  observations[5].seconds *= 100;
  const Parameters found = fit(observations, usual(), kFields);
  observations[5].seconds /= 100;
  EXPECT_LT(misfit(observations, found), 1.15);
}

TEST(TuneFit, LeavesAloneWhatItIsNotAskedFor) {
  const Parameters found = fit(observations_of(machine(), 0), usual(), kFields);
  Parameters expected = usual();
  for (const ParameterField& field : parameter_fields()) {
    if (std::ranges::find(kFields, field.name) != std::end(kFields)) continue;
    EXPECT_EQ(field.in_file_unit(found), field.in_file_unit(expected)) << field.name;
  }
  // Nothing is known: nothing is changed.
  EXPECT_EQ(hash_of(fit({}, usual(), kFields)), hash_of(usual()));
}

TEST(TuneExperiments, MeasureEachLinkAloneAndCrowded) {
  const auto count = [](uint32_t nranks, uint32_t cores, auto matches) {
    const std::vector<Experiment> all = plan_experiments(nranks, cores);
    return std::ranges::count_if(all, matches);
  };
  for (const uint32_t nranks : {2u, 4u}) {
    EXPECT_GT(count(nranks, 4, [&](auto& e) { return e.transport == "shm" && e.nranks == nranks; }), 0);
    EXPECT_GT(count(nranks, 4, [&](auto& e) { return e.transport == "tcp" && e.nranks == nranks; }), 0);
    EXPECT_GT(count(nranks, 4, [&](auto& e) { return e.transport == "shm" && e.nranks > 4; }), 0);
  }
  for (const Experiment& e : plan_experiments(2, 2)) {
    ASSERT_NE(find_algorithm(e.algorithm, Collective::all_reduce), nullptr) << e.algorithm;
    EXPECT_FALSE(e.bytes.empty());
  }
}

}  // namespace
}  // namespace tutti::tune
