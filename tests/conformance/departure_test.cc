// Peers that leave on purpose, and peers that are killed.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "base/clock.h"
#include "ranks.h"

namespace tutti::conformance {
namespace {

using testing::HasSubstr;

class Departure : public Conformance {
 protected:
  void SetUp() override { TUTTI_SKIP_UNLESS(GetParam().max_ranks > 1, "it has no peers"); }
};

TEST_P(Departure, LeavesWhatWasSentAndThenAnErrorThatNamesThePeer) {
  auto world = make_world(2);
  Sender sender(world->send_link(0, 1));
  Receiver receiver(world->recv_link(1, 0));
  uint32_t sent = 0;
  ASSERT_TRUE(world->until([&] {
    auto taken = sender.try_send(payload(sent, 5000), stamp(sent));
    EXPECT_TRUE(taken.ok()) << taken.status().c_str();
    return !taken.ok() || (*taken && ++sent == 2);
  }));
  sender.detach();
  ASSERT_TRUE(world->until([&] { return (*world)[0].drained(); }));
  sender.close();
  world->leave(0);

  uint32_t received = 0;
  Status error;
  ASSERT_TRUE(world->until([&] {
    auto got = receiver.try_receive(5000, stamp(received));
    if (!got.ok()) error = got.status();
    if (got.ok() && *got) {
      EXPECT_EQ(**got, payload(received++, 5000));
    }
    return !got.ok();
  }));
  EXPECT_EQ(received, sent);
  EXPECT_EQ(error.code(), tuttiRemoteError) << error.c_str();
  EXPECT_THAT(std::string(error.message()), HasSubstr(describe(0)));
  EXPECT_FALSE(receiver.try_receive(5000, stamp(received)).ok()) << "the error did not stay";
}

TEST_P(Departure, OfTheReceiverEndsInAnErrorThatNamesIt) {
  auto world = make_world(2);
  Sender sender(world->send_link(0, 1));
  Receiver receiver(world->recv_link(1, 0));
  // One message through, so that the link stands before the receiver leaves.
  ASSERT_TRUE(world->until([&] {
    if (sender.sent() == 0) {
      EXPECT_TRUE(sender.try_send(payload(0, 100), stamp()).ok());
    }
    auto got = receiver.try_receive(100, stamp());
    return !got.ok() || *got;
  }));
  receiver.close();
  world->leave(1);
  Status error;
  ASSERT_TRUE(world->until([&] {
    auto taken = sender.try_send(payload(1, 4000), stamp());
    error = taken.status();
    return !taken.ok();
  }));
  EXPECT_EQ(error.code(), tuttiRemoteError) << error.c_str();
  EXPECT_THAT(std::string(error.message()), HasSubstr(describe(1)));
  EXPECT_FALSE(sender.try_send(payload(2, 4000), stamp()).ok()) << "the error did not stay";
}

TEST_P(Departure, OfARankThatNobodyWaitsForIsNoError) {
  auto world = make_world(3);
  Sender sender(world->send_link(0, 1));
  Receiver receiver(world->recv_link(1, 0));
  world->leave(2);
  for (uint32_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(world->until([&] {
      auto taken = sender.try_send(payload(i, 100), stamp());
      EXPECT_TRUE(taken.ok()) << taken.status().c_str();
      return !taken.ok() || *taken;
    }));
    ASSERT_TRUE(world->until([&] {
      auto got = receiver.try_receive(100, stamp());
      EXPECT_TRUE(got.ok()) << got.status().c_str();
      return !got.ok() || *got;
    }));
    EXPECT_TRUE((*world)[0].check_peers().ok());
    EXPECT_TRUE((*world)[1].check_peers().ok());
  }
  EXPECT_TRUE(world->failure().ok()) << world->failure().c_str();
}

class ProcessDeparture : public Departure {
 protected:
  void SetUp() override { TUTTI_SKIP_UNLESS(GetParam().make_rank, "its ranks share one process"); }
};

TEST_P(ProcessDeparture, RanksInProcessesOfTheirOwnExchangeEverything) {
  constexpr uint32_t kRanks = 4;
  Processes processes(GetParam(), kRanks, small_config(), [](uint32_t self, Transport& transport) {
    std::vector<Sender> senders;
    std::vector<Receiver> receivers;
    for (uint32_t peer = 0; peer < kRanks; ++peer) {
      auto send = transport.open_send(Rank{peer}, ChannelId{1});
      auto recv = transport.open_recv(Rank{peer}, ChannelId{1});
      if (!send.ok() || !recv.ok()) return false;
      senders.emplace_back(std::move(send).value());
      receivers.emplace_back(std::move(recv).value());
    }
    for (uint32_t i = 0; i < 200; ++i) {
      const size_t bytes = i * 37 % 6000;
      for (uint32_t peer = 0; peer < kRanks; ++peer) {
        const Status sent = send_sleeping(transport, senders[peer], payload(self * 1000 + i, bytes), stamp(i), 5);
        if (!sent.ok()) return fmt::print(stderr, "rank {}: {}\n", self, sent.c_str()), false;
      }
      for (uint32_t peer = 0; peer < kRanks; ++peer) {
        auto got = receive_sleeping(transport, receivers[peer], bytes, stamp(i), 5);
        if (!got.ok()) return fmt::print(stderr, "rank {}: {}\n", self, got.status().c_str()), false;
        if (*got != payload(peer * 1000 + i, bytes)) return false;
      }
    }
    for (Sender& sender : senders) sender.detach();
    while (!transport.drained()) {
      if (!transport.progress().ok()) return false;
    }
    return true;
  });
  for (uint32_t rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(processes.succeeded(rank)) << "rank " << rank;
}

TEST_P(ProcessDeparture, AKilledPeerIsNoticedAndNamed) {
  // Rank 1 tells this process by a pipe that it is in the middle of things, and is killed. Rank 0 must notice.
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  Processes processes(GetParam(), 2, small_config(), [&](uint32_t self, Transport& transport) {
    auto send = transport.open_send(Rank{1 - self}, ChannelId{0});
    auto recv = transport.open_recv(Rank{1 - self}, ChannelId{0});
    if (!send.ok() || !recv.ok()) return false;
    Sender sender(std::move(send).value());
    Receiver receiver(std::move(recv).value());
    for (uint32_t i = 0;; ++i) {
      Status status = send_sleeping(transport, sender, payload(i, 100), stamp(i), 0);
      if (status.ok()) {
        if (self == 1 && i == 100 && ::write(ready[1], "x", 1) != 1) return false;
        // Rank 1 stops there, alive; what it waits for never comes.
        Nanoseconds deadline = steady_now() + 20 * kSecond;
        for (;;) {
          if (status = transport.progress(); !status.ok()) break;
          if (status = transport.check_peers(); !status.ok()) break;
          if (steady_now() > deadline) return false;
          if (self == 1 && i == 100) continue;
          auto got = receiver.try_receive(100, stamp(i));
          status = got.status();
          if (!got.ok() || *got) break;
        }
      }
      if (status.ok()) continue;
      EXPECT_THAT(std::string(status.message()), HasSubstr(describe(1)));
      return status.code() == tuttiRemoteError && status.message().find(describe(1)) != std::string_view::npos;
    }
  });
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  processes.kill(1);
  // Not reaped before: a launcher may be slow to do it, and the survivor must notice all the same.
  EXPECT_TRUE(processes.succeeded(0));
  EXPECT_FALSE(processes.succeeded(1));
  ::close(ready[0]);
  ::close(ready[1]);
}

INSTANTIATE_TEST_SUITE_P(All, Departure, testing::ValuesIn(providers()), [](const auto& p) { return p.param.name; });
INSTANTIATE_TEST_SUITE_P(All, ProcessDeparture, testing::ValuesIn(providers()),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace tutti::conformance
