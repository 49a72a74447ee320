// Tune: what links and cores cost here, from times of operations that were forced to run in known ways.
//
// An experiment starts ranks on this host, with the algorithm, lanes, tile and transport forced; an observation is one
// size of it. The fit looks for the parameters under which the library's own predictions come closest to all of them,
// so whatever the engine and the transports cost is in.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithm.h"
#include "tune/facts.h"

namespace tutti::tune {

struct Experiment {
  uint32_t nranks = 2;
  std::string_view transport = "shm";   // or "tcp"
  std::string_view algorithm = "ring";  // of all_reduce
  uint32_t lanes = 1;
  uint64_t tile_bytes = 64 * 1024;
  std::vector<uint64_t> bytes;
};

struct Observation {
  const Algorithm* algorithm = nullptr;
  Facts facts;  // all but the parameters
  uint32_t lanes = 1;
  uint64_t tile_bytes = 0;  // as it was in force
  uint64_t bytes = 0;
  double seconds = 0;
};

// Runs it; `program` is this one's path. Blocks for some 100 ms. Uses SIGCHLD's default. An error says what the ranks
// said.
Result<std::vector<Observation>> run(const Experiment& experiment, const std::string& program);

// What is measured by `tutti tune -n nranks`: over shared memory and TCP, and with more ranks than cores.
std::vector<Experiment> plan_experiments(uint32_t nranks, uint32_t cores);

// The parameters, of those named in `fields`, that make the predictions of `observations` come closest: the least sum of
// squared logarithms of prediction over time (beyond e^0.3, of plain ones), with a weak pull towards `start` for what the
// observations do not tell. About 10 ms for 100 observations.
Parameters fit(std::span<const Observation> observations, const Parameters& start,
               std::span<const std::string_view> fields);

// Prediction over time for one observation.
double ratio(const Observation& observation, const Parameters& parameters);
// exp(root mean square of the logarithms of all ratios): 1.2 means that predictions are off by some 20%.
double misfit(std::span<const Observation> observations, const Parameters& parameters);

}  // namespace tutti::tune
