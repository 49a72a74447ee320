// Cost: how long the plans of a shape take on given links, by running them over times: (max, +) over alpha, beta,
// gamma.
//
//   a step begins when its lane is free and its messages are there, and takes
//     step_s + gamma * bytes * (operands - 1), and for each message received and each store what CostModel says
//   a message leaves when its step is done and its link is free, holds the link for  message_s + beta * bytes, and
//   arrives alpha later
//
// What a link holds may be the lane that sends (kSendingLane): so it is where a core copies the bytes.
//
// FIFOs are taken to be deep enough that nobody waits for room. For n ranks in a ring this gives the textbook's
// 2 (n - 1) (alpha + beta * bytes) + (n - 1) gamma * bytes; for overlapping lanes and tiles, what formulas leave out.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"
#include "plan/work.h"

namespace tutti {

struct LinkCost {
  double alpha_s = 0;          // latency, beside CostModel::alpha_s_per_byte
  double beta_s_per_byte = 0;  // inverse bandwidth
  uint32_t resource = 0;       // what the message occupies meanwhile: links of equal number take turns
  double message_s = 0;        // occupied for it, whatever its size
};
constexpr uint32_t kSendingLane = UINT32_MAX;  // LinkCost::resource: the lane itself, which can do nothing else

struct CostModel {
  std::function<LinkCost(Rank source, Rank destination)> link;  // called once per FIFO
  double gamma_s_per_byte = 0;                                  // folding one more operand
  double step_s = 0;                                            // overhead of a step
  double alpha_s_per_byte = 0;                                  // what a message's bytes add to the latency of links
  double receive_message_s = 0;                                 // a step's time for each message it takes
  double receive_s_per_byte = 0;                                // and for its bytes
  double store_s_per_byte = 0;                                  // a step's time for what it stores
};

// Every pair of ranks has a link of its own.
CostModel full_mesh(uint32_t nranks, double alpha_s, double beta_s_per_byte);
// All that a rank sends goes through one port.
CostModel one_port(double alpha_s, double beta_s_per_byte);
// The host engine: whatever a message costs, its lanes pay. The model of CostTerms (work.h).
CostModel busy_lanes(const Prices& prices);

struct Cost {
  double seconds = 0;         // when the last lane has ended
  double bytes_sent_max = 0;  // by one rank
  uint64_t messages = 0;
  std::vector<Work> work;  // of each rank, over all tiles
};

// Every chunk has chunk_bytes bytes and travels in `tiles` tiles. O(steps x tiles). Fails as verify() does on plans
// that do not run. Messages of several lanes on one resource are served in the order in which the run comes upon them.
Result<Cost> estimate_cost(const Shape& shape, std::span<const Plan> plans, const CostModel& model, double chunk_bytes,
                           uint32_t tiles = 1);

}  // namespace tutti
