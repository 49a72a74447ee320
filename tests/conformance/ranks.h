// Ranks that run by themselves: as threads that sleep when they have nothing to do, or as processes.
#pragma once

#include <sys/types.h>

#include <functional>

#include "ends.h"
#include "world.h"

namespace tutti::conformance {

// Sleeps in poll() until the transport has news. False when none came for 20 s: a wake-up was lost.
bool sleep_until_news(Transport& transport);

// Runs body(rank) in a thread for each rank.
void run_threads(uint32_t nranks, const std::function<void(uint32_t rank)>& body);

// Blocking use from a thread: tries `spins` times before each sleep. The failure, or a lost wake-up, is an error.
Status send_sleeping(Transport& transport, Sender& sender, const Bytes& message, const Stamp& stamp, uint64_t spins);
Result<Bytes> receive_sleeping(Transport& transport, Receiver& receiver, size_t bytes, const Stamp& stamp,
                               uint64_t spins);

// Processes forked from this one, each with one rank. This process hands the addresses round.
class Processes {
 public:
  // body(rank, transport) runs in the child once all know each other; what it returns says whether all went well.
  using Body = std::function<bool(uint32_t rank, Transport& transport)>;
  // before(rank) runs in the child before it makes its transport.
  Processes(const Provider& provider, uint32_t nranks, const Config& config, const Body& body,
            const std::function<void(uint32_t)>& before = {});
  // Kills what still runs and reaps it.
  ~Processes();

  void kill(uint32_t rank);  // SIGKILL; does not reap
  // Reaps the child; true when its body returned true.
  bool succeeded(uint32_t rank);

 private:
  std::vector<pid_t> pids_;
};

}  // namespace tutti::conformance
