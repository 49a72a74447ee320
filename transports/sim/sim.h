// The sim transport: a network inside one process, with a virtual clock, for tests.
//
// Deterministic: the same seed, options and calls give the same run. Time stands still until advance_to_next_event()
// moves it; a test polls its ranks, advances, polls again. Each message takes its own random latency, so that messages
// of different links overtake each other while each link keeps its order. Made to be unkind within the contract:
//   mapped   a message's room is exactly as large as claimed and dies with release(), so that AddressSanitizer sees
//            writes beyond it and reads after it
//   put      source memory is read in pieces at random times, the last just before the message retires; bytes land in
//            the receiver's memory in pieces, at any time after the first receive(), also between its calls
// One thread for the whole network. About 0.3 us of real time an event, two to eight events a message.
#pragma once

#include <memory>
#include <optional>

#include "base/clock.h"
#include "transports/transport.h"

namespace tutti {

struct SimOptions {
  uint64_t seed = 1;
  Rank nranks{2};
  bool mapped = true;
  bool shares_memory = false;      // mapped: all memory can be lent and granted, and is, half of the times
  Nanoseconds latency_min = kMicrosecond;
  Nanoseconds latency_max = 20 * kMicrosecond;
  uint64_t bytes_per_us = 10'000;  // of each link; 0: no limit
  uint32_t queue_depth = 4;        // messages that a link takes before the first is released; at least 1
  size_t max_message_bytes = 64 << 10;

  // A rank that is lost: from then on it sends nothing, what has left it arrives, its own calls fail, and after
  // `noticed_after` the others' calls that wait for it fail.
  struct Loss {
    Rank rank;
    Nanoseconds at = 0;
    Nanoseconds noticed_after = kMillisecond;
  };
  std::optional<Loss> loss;
};

class SimNetwork {
 public:
  explicit SimNetwork(const SimOptions& options);
  ~SimNetwork();  // transports may outlive it

  const Clock& clock() const;
  // The transport of one rank; once per rank.
  std::unique_ptr<Transport> make_transport(Rank rank);
  // Moves the clock to the next event and lets it happen; false when none is due: the network is at rest.
  bool advance_to_next_event();
  bool lost(Rank rank) const;
  uint64_t events() const;  // that have happened so far

  class Core;

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace tutti
