// Ranks that sleep are woken: by a message, by a credit, by a peer that leaves. Each sleep that lasts 20 s is a
// failure.
#include <thread>

#include "base/rng.h"
#include "ranks.h"

namespace tutti::conformance {
namespace {

class Waiting : public Conformance {
 protected:
  void SetUp() override { TUTTI_SKIP_UNLESS(GetParam().sleeps && GetParam().max_ranks > 1, "its ranks cannot sleep"); }
};

TEST_P(Waiting, PingPongNeverLosesAWakeUp) {
  auto world = make_world(2);
  run_threads(2, [&](uint32_t rank) {
    Transport& transport = (*world)[rank];
    Sender sender(world->send_link(rank, 1 - rank));
    Receiver receiver(world->recv_link(rank, 1 - rank));
    Rng rng(rank + 1);
    for (uint32_t i = 0; i < 2000; ++i) {
      const size_t bytes = i % 100;
      // A random number of tries before sleeping: the news comes before, in and after every step of falling asleep.
      for (uint32_t turn = 0; turn < 2; ++turn) {
        if (turn == rank) {
          const Status sent = send_sleeping(transport, sender, payload(i, bytes), stamp(i), rng.below(60));
          ASSERT_TRUE(sent.ok()) << "round " << i << ": " << sent.c_str();
        } else {
          auto got = receive_sleeping(transport, receiver, bytes, stamp(i), rng.below(60));
          ASSERT_TRUE(got.ok()) << "round " << i << ": " << got.status().c_str();
          ASSERT_EQ(*got, payload(i, bytes));
        }
      }
    }
  });
}

TEST_P(Waiting, AStreamNeverLosesAWakeUp) {
  // The sender runs out of credit and the receiver out of messages, in turns that nobody arranges.
  auto world = make_world(2);
  constexpr uint32_t kMessages = 3000;
  run_threads(2, [&](uint32_t rank) {
    Transport& transport = (*world)[rank];
    Rng rng(rank + 10);
    if (rank == 0) {
      Sender sender(world->send_link(0, 1));
      for (uint32_t i = 0; i < kMessages; ++i) {
        const Status sent = send_sleeping(transport, sender, payload(i, 3000), stamp(i), rng.below(20));
        ASSERT_TRUE(sent.ok()) << "message " << i << ": " << sent.c_str();
      }
      sender.detach();
      while (!transport.drained()) ASSERT_TRUE(transport.progress().ok());
      return;
    }
    Receiver receiver(world->recv_link(1, 0));
    for (uint32_t i = 0; i < kMessages; ++i) {
      auto got = receive_sleeping(transport, receiver, 3000, stamp(i), rng.below(20));
      ASSERT_TRUE(got.ok()) << "message " << i << ": " << got.status().c_str();
      ASSERT_EQ(*got, payload(i, 3000));
    }
  });
}

TEST_P(Waiting, ARingOfSleepersGoesRound) {
  constexpr uint32_t kRanks = 5;
  auto world = make_world(kRanks);
  run_threads(kRanks, [&](uint32_t rank) {
    Sender sender(world->send_link(rank, (rank + 1) % kRanks));
    Receiver receiver(world->recv_link(rank, (rank + kRanks - 1) % kRanks));
    for (uint32_t i = 0; i < 300; ++i) {
      const Status sent = send_sleeping((*world)[rank], sender, payload(rank + i, 64), stamp(i), 0);
      ASSERT_TRUE(sent.ok()) << sent.c_str();
      auto got = receive_sleeping((*world)[rank], receiver, 64, stamp(i), 0);
      ASSERT_TRUE(got.ok()) << got.status().c_str();
      ASSERT_EQ(*got, payload((rank + kRanks - 1) % kRanks + i, 64));
    }
  });
}

TEST_P(Waiting, EndsWhenThePeerLeaves) {
  for (int round = 0; round < 20; ++round) {
    auto world = make_world(2);
    std::jthread waiter([&] {
      Receiver receiver(world->recv_link(1, 0));
      auto got = receive_sleeping((*world)[1], receiver, 10, stamp(), round % 5);
      ASSERT_TRUE(got.ok()) << got.status().c_str();
      got = receive_sleeping((*world)[1], receiver, 10, stamp(), round % 5);
      EXPECT_EQ(got.status().code(), tuttiRemoteError) << got.status().c_str();
    });
    Sender sender(world->send_link(0, 1));
    const Status sent = send_sleeping((*world)[0], sender, payload(0, 10), stamp(), 0);
    ASSERT_TRUE(sent.ok()) << sent.c_str();
    sender.detach();
    while (!(*world)[0].drained()) ASSERT_TRUE((*world)[0].progress().ok());
    sender.close();
    world->leave(0);
  }
}

TEST_P(Waiting, DoesNotBlockWhenTheNewsIsThere) {
  auto world = make_world(2);
  Sender sender(world->send_link(0, 1));
  Receiver receiver(world->recv_link(1, 0));
  auto got = receiver.try_receive(10, stamp());
  ASSERT_TRUE(got.ok() && !*got);
  ASSERT_TRUE(world->until([&] {
    auto sent = sender.try_send(payload(0, 10), stamp());
    return !sent.ok() || *sent;
  }));
  ASSERT_TRUE(sleep_until_news((*world)[1]));
  ASSERT_TRUE(world->until([&] {
    got = receiver.try_receive(10, stamp());
    return !got.ok() || *got;
  }));
  EXPECT_TRUE(got.ok());
}

TEST_P(Waiting, DoesNotBlockWhenThePeerHasLeft) {
  auto world = make_world(2);
  Sender sender(world->send_link(0, 1));
  Receiver receiver(world->recv_link(1, 0));
  // One message through, so that the link stands before its sender leaves.
  ASSERT_TRUE(world->until([&] {
    if (sender.sent() == 0) {
      EXPECT_TRUE(sender.try_send(payload(0, 10), stamp()).ok());
    }
    auto got = receiver.try_receive(10, stamp());
    return !got.ok() || *got;
  }));
  sender.detach();
  ASSERT_TRUE(world->until([&] { return (*world)[0].drained(); }));
  auto got = receiver.try_receive(10, stamp());
  ASSERT_TRUE(got.ok() && !*got);
  sender.close();
  world->leave(0);
  ASSERT_TRUE(sleep_until_news((*world)[1]));
  ASSERT_TRUE(world->until([&] { return !receiver.try_receive(10, stamp()).ok(); }));
}

INSTANTIATE_TEST_SUITE_P(All, Waiting, testing::ValuesIn(providers()), [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace tutti::conformance
