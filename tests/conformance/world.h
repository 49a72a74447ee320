// World: the ranks of one communicator as far as a transport sees them, and the list of transports that the suite is
// run for. A transport joins the suite by one line in providers().
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "transports/transport.h"

namespace tutti::conformance {

// Ranks that live in this process and, unless a test gives them threads of their own, are driven together.
class World {
 public:
  World(std::vector<std::unique_ptr<Transport>> transports, std::function<void()> let_time_pass);
  ~World();

  uint32_t size() const { return static_cast<uint32_t>(transports_.size()); }
  Transport& operator[](uint32_t rank) { return *transports_[rank]; }
  void leave(uint32_t rank) { transports_[rank].reset(); }

  // Drives all ranks until `condition` holds; false when it did not within 30 s (or in a simulation that came to rest).
  bool until(const std::function<bool()>& condition);
  // One round of progress on all ranks. The first failure is kept.
  void drive();
  const Status& failure() const { return failure_; }

  std::unique_ptr<SendLink> send_link(uint32_t from, uint32_t to, uint16_t channel = 0);
  std::unique_ptr<RecvLink> recv_link(uint32_t at, uint32_t from, uint16_t channel = 0);

 private:
  std::vector<std::unique_ptr<Transport>> transports_;
  std::function<void()> let_time_pass_;
  Status failure_;
};

struct Provider {
  std::string name;
  uint32_t max_ranks = 64;
  bool sleeps = true;  // ranks may run in threads of their own and sleep in poll()
  std::function<std::unique_ptr<World>(uint32_t nranks, const Config& config)> make_world;
  // One rank, for processes; empty where all ranks must live in one process.
  std::function<Result<std::unique_ptr<Transport>>(const TransportContext& context)> make_rank;
};
const std::vector<Provider>& providers();
inline void PrintTo(const Provider& provider, std::ostream* out) { *out << provider.name; }

// "rank 2 (the third)": how set_peers() was told to call a rank.
std::string describe(uint32_t rank);
// Small tiles, the loopback interface.
Config small_config();
TransportContext context_of(uint32_t rank, uint32_t nranks, const Config& config);
// Makes the ranks one by one and lets them know each other.
std::vector<std::unique_ptr<Transport>> make_ranks(const Provider& provider, uint32_t nranks, const Config& config);

class Conformance : public testing::TestWithParam<Provider> {
 protected:
  // A world of up to `nranks`: as many as the transport can join.
  std::unique_ptr<World> make_world(uint32_t nranks = 2, const Config& config = small_config()) {
    return GetParam().make_world(std::min(nranks, GetParam().max_ranks), config);
  }
};

#define TUTTI_SKIP_UNLESS(capability, why) \
  if (!(capability)) GTEST_SKIP() << why

}  // namespace tutti::conformance
