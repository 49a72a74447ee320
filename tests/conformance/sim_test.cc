// The simulated network: deterministic, unkind to those who reuse memory too early, and quick.
#include "transports/sim/sim.h"

#include <gmock/gmock.h>

#include <cstring>

#include "ends.h"
#include "world.h"

namespace tutti::conformance {
namespace {

std::vector<std::unique_ptr<Transport>> make_transports(SimNetwork& network, uint32_t nranks) {
  std::vector<std::string> descriptions;
  for (uint32_t r = 0; r < nranks; ++r) descriptions.push_back(describe(r));
  std::vector<std::unique_ptr<Transport>> ranks;
  for (uint32_t r = 0; r < nranks; ++r) {
    ranks.push_back(network.make_transport(Rank{r}));
    EXPECT_TRUE(ranks.back()->set_peers({}, descriptions).ok());
  }
  return ranks;
}

// A ring all_reduce of one 64-bit word per rank and chunk, by hand: enough of an engine to drive a network.
class RingRank {
 public:
  // With `hasty` set it reuses the memory of a put message at once instead of when it is retired.
  RingRank(Transport& transport, uint32_t self, uint32_t nranks, bool hasty)
      : self_(self),
        n_(nranks),
        hasty_(hasty),
        send_(transport.open_send(Rank{(self + 1) % nranks}, ChannelId{0}).value()),
        recv_(transport.open_recv(Rank{(self + nranks - 1) % nranks}, ChannelId{0}).value()) {
    for (uint32_t chunk = 0; chunk < n_; ++chunk) words_.push_back(1000 * chunk + self);
  }
  bool finished() const { return sent_ == steps() && received_ == steps(); }
  const std::vector<uint64_t>& words() const { return words_; }

  // False when it could do nothing.
  bool step() {
    bool moved = false;
    if (sent_ < steps() && sent_ <= received_) moved |= try_send();
    if (received_ < sent_) moved |= try_receive();
    return moved;
  }

 private:
  uint32_t steps() const { return 2 * (n_ - 1); }
  uint32_t chunk_sent(uint32_t step) const { return (self_ + 2 * n_ - step) % n_; }

  bool try_send() {
    const uint64_t word = words_[chunk_sent(sent_)];
    if (send_->mapped()) {
      std::byte* room = send_->claim(sizeof word).value().data;
      if (!room) return false;
      std::memcpy(room, &word, sizeof word);
      send_->post(sizeof word, stamp(sent_));
    } else {
      if (!hasty_ && send_->retired() < sent_) return false;
      outgoing_ = word;
      const ConstPiece piece{reinterpret_cast<const std::byte*>(&outgoing_), sizeof outgoing_};
      if (!send_->put({&piece, 1}, stamp(sent_)).value()) return false;
    }
    ++sent_;
    return true;
  }
  bool try_receive() {
    const MutablePiece piece{reinterpret_cast<std::byte*>(&incoming_), sizeof incoming_};
    const Arrival arrival = recv_->receive({&piece, 1}, sizeof incoming_, stamp(received_)).value();
    if (arrival.state != Arrival::State::arrived) return false;
    uint64_t word = incoming_;
    if (recv_->mapped()) std::memcpy(&word, arrival.data, sizeof word);
    uint64_t& mine = words_[chunk_sent(received_ + 1)];
    mine = received_ < n_ - 1 ? mine + word : word;
    recv_->release();
    ++received_;
    return true;
  }

  uint32_t self_, n_;
  bool hasty_;
  std::unique_ptr<SendLink> send_;
  std::unique_ptr<RecvLink> recv_;
  std::vector<uint64_t> words_;
  uint64_t outgoing_ = 0, incoming_ = 0;
  uint32_t sent_ = 0, received_ = 0;
};

struct Outcome {
  bool right = false;
  Nanoseconds took = 0;
  uint64_t events = 0;
  bool operator==(const Outcome&) const = default;
};

Outcome all_reduce(const SimOptions& options, bool hasty = false) {
  SimNetwork network(options);
  const uint32_t n = options.nranks;
  auto transports = make_transports(network, n);
  std::vector<RingRank> ranks;
  for (uint32_t r = 0; r < n; ++r) ranks.emplace_back(*transports[r], r, n, hasty);
  const auto all_finished = [&] { return std::ranges::all_of(ranks, [](const RingRank& r) { return r.finished(); }); };
  while (!all_finished()) {
    bool moved = false;
    for (RingRank& rank : ranks) moved |= rank.step();
    if (!moved && !network.advance_to_next_event()) return {};
  }
  Outcome outcome{.right = true, .took = network.clock().now(), .events = network.events()};
  for (const RingRank& rank : ranks) {
    for (uint32_t chunk = 0; chunk < n; ++chunk)
      outcome.right &= rank.words()[chunk] == uint64_t{1000} * chunk * n + n * (n - 1) / 2;
  }
  return outcome;
}

class Sim : public testing::TestWithParam<bool> {};

TEST_P(Sim, AThousandSeedsOfAllReduceAreRight) {
  for (uint64_t seed = 0; seed < 1000; ++seed)
    ASSERT_TRUE(
        all_reduce({.seed = seed, .nranks = Rank{2 + static_cast<uint32_t>(seed % 7)}, .mapped = GetParam()}).right)
        << "seed " << seed;
}

TEST_P(Sim, TheSameSeedIsTheSameRun) {
  const auto run = [](uint64_t seed) { return all_reduce({.seed = seed, .nranks = Rank{5}, .mapped = GetParam()}); };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1).took, run(2).took);
}

TEST_P(Sim, LinksOvertakeEachOtherButNotThemselves) {
  SimNetwork network({.nranks = Rank{2}, .mapped = GetParam()});
  auto ranks = make_transports(network, 2);
  std::vector<Sender> senders;
  std::vector<Receiver> receivers;
  for (uint16_t channel = 0; channel < 8; ++channel) {
    senders.emplace_back(ranks[0]->open_send(Rank{1}, ChannelId{channel}).value());
    receivers.emplace_back(ranks[1]->open_recv(Rank{0}, ChannelId{channel}).value());
  }
  for (uint32_t i = 0; i < 2; ++i) {
    for (Sender& sender : senders) ASSERT_TRUE(sender.try_send(payload(i, 100), stamp(i)).value());
  }
  std::vector<uint16_t> arrivals;
  std::vector<uint32_t> next(8);
  while (network.advance_to_next_event()) {
    for (uint16_t channel = 0; channel < 8; ++channel) {
      if (receivers[channel].try_receive(100, stamp(next[channel])).value()) {
        ++next[channel];
        arrivals.push_back(channel);
      }
    }
  }
  EXPECT_EQ(arrivals.size(), 16u);
  EXPECT_FALSE(std::ranges::is_sorted(arrivals.begin(), arrivals.begin() + 8));
}

TEST_P(Sim, BandwidthAndLatencyTakeVirtualTime) {
  SimNetwork network(
      {.nranks = Rank{2}, .mapped = GetParam(), .latency_min = 5000, .latency_max = 5000, .bytes_per_us = 10});
  auto ranks = make_transports(network, 2);
  Sender sender(ranks[0]->open_send(Rank{1}, ChannelId{0}).value());
  Receiver receiver(ranks[1]->open_recv(Rank{0}, ChannelId{0}).value());
  ASSERT_TRUE(sender.try_send(payload(0, 1000), stamp()).value());
  while (!receiver.try_receive(1000, stamp()).value()) ASSERT_TRUE(network.advance_to_next_event());
  EXPECT_GE(network.clock().now(), 105'000u);
}

TEST_P(Sim, ALostRankIsAnErrorForThoseWhoWaitForIt) {
  const SimOptions::Loss loss{.rank = Rank{0}, .at = 50 * kMicrosecond, .noticed_after = kMillisecond};
  SimNetwork network({.nranks = Rank{3}, .mapped = GetParam(), .loss = loss});
  auto ranks = make_transports(network, 3);
  Sender sender(ranks[0]->open_send(Rank{1}, ChannelId{0}).value());
  Receiver receiver(ranks[1]->open_recv(Rank{0}, ChannelId{0}).value());
  EXPECT_TRUE(ranks[1]->check_peers().ok());
  uint32_t received = 0;
  Status error;
  while (error.ok()) {
    (void)sender.try_send(payload(0, 100), stamp());
    auto got = receiver.try_receive(100, stamp());
    error = got.status();
    if (got.ok() && *got) {
      ++received;
    } else if (error.ok()) {
      ASSERT_TRUE(network.advance_to_next_event()) << "the network came to rest without an error";
    }
  }
  EXPECT_TRUE(network.lost(Rank{0}));
  EXPECT_GE(received, 1u);
  EXPECT_EQ(error.code(), tuttiRemoteError);
  EXPECT_THAT(error.c_str(), testing::HasSubstr(describe(0)));
  EXPECT_GE(network.clock().now(), loss.at + loss.noticed_after);
  EXPECT_EQ(ranks[1]->check_peers().code(), tuttiRemoteError);
  EXPECT_TRUE(ranks[2]->check_peers().ok()) << "it has no link to the lost rank";
  EXPECT_FALSE(sender.try_send(payload(0, 100), stamp()).ok()) << "the lost rank itself";
}

INSTANTIATE_TEST_SUITE_P(All, Sim, testing::Bool(), [](const auto& p) { return p.param ? "mapped" : "put"; });

TEST(SimPut, CatchesAnEngineThatReusesMemoryTooEarly) {
  uint32_t wrong = 0;
  for (uint64_t seed = 0; seed < 50; ++seed)
    wrong += !all_reduce({.seed = seed, .nranks = Rank{4}, .mapped = false}, /*hasty=*/true).right;
  EXPECT_GT(wrong, 25u);
}

TEST(SimPut, LandsInPiecesAtAnyTime) {
  uint32_t partial = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimNetwork network({.seed = seed, .nranks = Rank{2}, .mapped = false});
    auto ranks = make_transports(network, 2);
    Sender sender(ranks[0]->open_send(Rank{1}, ChannelId{0}).value());
    auto link = ranks[1]->open_recv(Rank{0}, ChannelId{0}).value();
    const Bytes message = payload(seed, 1000);
    ASSERT_TRUE(sender.try_send(message, stamp()).value());
    Bytes room(1000);
    const MutablePiece piece{room.data(), room.size()};
    ASSERT_EQ(link->receive({&piece, 1}, 1000, stamp())->state, Arrival::State::pending);
    while (network.advance_to_next_event()) {
      const bool some = room != Bytes(1000), all = room == message;
      partial += some && !all;
    }
    EXPECT_EQ(room, message) << "it lands without being asked again";
    EXPECT_EQ(link->receive({&piece, 1}, 1000, stamp())->state, Arrival::State::arrived);
  }
  EXPECT_GT(partial, 0u);
}

TEST(SimPut, RefusesAChangedReceive) {
  SimNetwork network({.nranks = Rank{2}, .mapped = false});
  auto ranks = make_transports(network, 2);
  auto link = ranks[1]->open_recv(Rank{0}, ChannelId{0}).value();
  Bytes room(20);
  const MutablePiece first{room.data(), 10}, second{room.data() + 10, 10};
  EXPECT_TRUE(link->receive({&first, 1}, 10, stamp()).ok());
  EXPECT_FALSE(link->receive({&second, 1}, 10, stamp()).ok());
}

}  // namespace
}  // namespace tutti::conformance
