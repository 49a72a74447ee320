#include "world.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "base/clock.h"
#include "transports/faulty/faulty.h"
#include "transports/self/self.h"
#include "transports/shm/shm.h"
#include "transports/sim/sim.h"
#include "transports/tcp/tcp.h"
#ifdef TUTTI_WITH_UCX
#include "transports/ucx/ucx.h"
#endif

namespace tutti::conformance {
namespace {

using MakeRank = std::function<Result<std::unique_ptr<Transport>>(const TransportContext&)>;

Provider real(std::string name, MakeRank make_rank, uint32_t max_ranks = 64) {
  Provider provider{.name = std::move(name), .max_ranks = max_ranks, .make_rank = std::move(make_rank)};
  provider.make_world = [provider](uint32_t nranks, const Config& config) {
    return std::make_unique<World>(make_ranks(provider, nranks, config), [] { ::sched_yield(); });
  };
  return provider;
}

Provider self_provider() {
  Provider provider = real(
      "self", [](const TransportContext& c) { return make_self_transport(c); }, 1);
  provider.sleeps = false;
  provider.make_rank = nullptr;
  provider.make_world = [](uint32_t, const Config& config) {
    std::vector<std::unique_ptr<Transport>> ranks;
    ranks.push_back(make_self_transport(context_of(0, 1, config)));
    EXPECT_TRUE(ranks[0]->set_peers({ranks[0]->address()}, {describe(0)}).ok());
    return std::make_unique<World>(std::move(ranks), [] {});
  };
  return provider;
}

Provider sim_provider(std::string name, bool mapped) {
  return {.name = std::move(name), .sleeps = false, .make_world = [mapped](uint32_t nranks, const Config& config) {
            auto network = std::make_shared<SimNetwork>(SimOptions{
                .nranks = Rank{nranks}, .mapped = mapped, .max_message_bytes = config.tile_bytes.value_or(64 << 10)});
            std::vector<std::unique_ptr<Transport>> ranks;
            std::vector<std::string> descriptions;
            for (uint32_t r = 0; r < nranks; ++r) descriptions.push_back(describe(r));
            for (uint32_t r = 0; r < nranks; ++r) {
              ranks.push_back(network->make_transport(Rank{r}));
              EXPECT_TRUE(ranks[r]->set_peers({}, descriptions).ok());
            }
            return std::make_unique<World>(std::move(ranks), [network] { network->advance_to_next_event(); });
          }};
}

// Whatever `make_rank` makes, with delays and refusals.
MakeRank faulty(MakeRank make_rank) {
  return [make_rank](const TransportContext& context) -> Result<std::unique_ptr<Transport>> {
    TUTTI_TRY_ASSIGN(auto inner, make_rank(context));
    const FaultOptions options{.seed = uint32_t{context.self} + 7u, .delay_polls_max = 3, .spurious_percent = 20};
    return make_faulty_transport(std::move(inner), options);
  };
}

Result<std::unique_ptr<Transport>> make_tcp(const TransportContext& context) { return make_tcp_transport(context); }

}  // namespace

const std::vector<Provider>& providers() {
  static const std::vector<Provider> all = {
      self_provider(),
      real("shm", make_shm_transport),
      real("tcp", make_tcp),
#ifdef TUTTI_WITH_UCX
      real("ucx", make_ucx_transport),
#endif
      sim_provider("sim_mapped", true),
      sim_provider("sim_put", false),
      real("faulty_shm", faulty(make_shm_transport)),
      real("faulty_tcp", faulty(make_tcp)),
  };
  return all;
}

World::World(std::vector<std::unique_ptr<Transport>> transports, std::function<void()> let_time_pass)
    : transports_(std::move(transports)), let_time_pass_(std::move(let_time_pass)) {}
World::~World() = default;

void World::drive() {
  for (auto& transport : transports_) {
    if (!transport) continue;
    Status status = transport->progress();
    if (failure_.ok()) failure_ = std::move(status);
  }
  let_time_pass_();
}

bool World::until(const std::function<bool()>& condition) {
  const Nanoseconds deadline = steady_now() + 30 * kSecond;
  while (!condition()) {
    if (steady_now() > deadline) return false;
    drive();
  }
  return true;
}

std::unique_ptr<SendLink> World::send_link(uint32_t from, uint32_t to, uint16_t channel) {
  auto link = (*this)[from].open_send(Rank{to}, ChannelId{channel});
  EXPECT_TRUE(link.ok()) << link.status().c_str();
  return link.ok() ? std::move(link).value() : nullptr;
}

std::unique_ptr<RecvLink> World::recv_link(uint32_t at, uint32_t from, uint16_t channel) {
  auto link = (*this)[at].open_recv(Rank{from}, ChannelId{channel});
  EXPECT_TRUE(link.ok()) << link.status().c_str();
  return link.ok() ? std::move(link).value() : nullptr;
}

std::string describe(uint32_t rank) {
  return fmt::format("rank {} (called {})", rank, static_cast<char>('A' + rank % 26));
}

Config small_config() {
  Config config;
  config.tile_bytes = 8192;
  config.socket_ifname = {.exclude = false, .exact = true, .names = {"lo"}};
  config.timeout = 30 * kSecond;
  return config;
}

TransportContext context_of(uint32_t rank, uint32_t nranks, const Config& config) {
  return {
      .config = config, .key = std::vector<std::byte>(32, std::byte{0x5a}), .self = Rank{rank}, .nranks = Rank{nranks}};
}

std::vector<std::unique_ptr<Transport>> make_ranks(const Provider& provider, uint32_t nranks, const Config& config) {
  std::vector<std::unique_ptr<Transport>> ranks;
  std::vector<std::vector<std::byte>> addresses;
  std::vector<std::string> descriptions;
  for (uint32_t r = 0; r < nranks; ++r) {
    auto transport = provider.make_rank(context_of(r, nranks, config));
    if (!transport.ok()) {
      ADD_FAILURE() << transport.status().c_str();
      return {};
    }
    ranks.push_back(std::move(transport).value());
    addresses.push_back(ranks.back()->address());
    EXPECT_LE(addresses.back().size(), Transport::kMaxAddressBytes);
    descriptions.push_back(describe(r));
  }
  for (auto& rank : ranks) EXPECT_TRUE(rank->set_peers(addresses, descriptions).ok());
  for (auto& rank : ranks) {
    for (uint32_t peer = 0; peer < nranks; ++peer) EXPECT_EQ(rank->unreachable_reason(Rank{peer}), "");
  }
  return ranks;
}

}  // namespace tutti::conformance
