// What the faulty decorator adds to the contract: failures when they are asked for.
#include "transports/faulty/faulty.h"

#include <gmock/gmock.h>

#include "ends.h"
#include "transports/self/self.h"
#include "world.h"

namespace tutti::conformance {
namespace {

struct Loop {
  explicit Loop(const FaultOptions& options)
      : transport(make_faulty_transport(make_self_transport(context_of(0, 1, small_config())), options)) {
    EXPECT_TRUE(transport->set_peers({transport->address()}, {describe(0)}).ok());
    sender.emplace(transport->open_send(Rank{0}, ChannelId{0}).value());
    receiver.emplace(transport->open_recv(Rank{0}, ChannelId{0}).value());
  }
  std::unique_ptr<Transport> transport;
  std::optional<Sender> sender;
  std::optional<Receiver> receiver;
};

TEST(Faulty, ChangesNothingUnlessAskedTo) {
  Loop loop({});
  for (uint32_t i = 0; i < 100; ++i) {
    auto sent = loop.sender->try_send(payload(i, 100), stamp());
    ASSERT_TRUE(sent.ok() && *sent);
    auto got = loop.receiver->try_receive(100, stamp());
    ASSERT_TRUE(got.ok() && *got);
    EXPECT_EQ(**got, payload(i, 100));
  }
}

TEST(Faulty, FailsAtTheChosenCallAndEverAfter) {
  Loop loop({.fail_at_call = 5, .failure = Status(tuttiRemoteError, "as told")});
  for (uint32_t call = 0; call < 10; ++call) {
    auto got = loop.receiver->try_receive(100, stamp());
    EXPECT_EQ(got.ok(), call < 5) << call;
    EXPECT_STREQ(got.status().c_str(), call < 5 ? "success" : "as told");
  }
}

TEST(Faulty, DelaysForNoMoreThanTheGivenPolls) {
  Loop loop({.seed = 3, .delay_polls_max = 4});
  uint32_t longest = 0, shortest = 100;
  for (uint32_t i = 0; i < 200; ++i) {
    while (!loop.sender->try_send(payload(i, 100), stamp()).value()) {
    }
    uint32_t polls = 0;
    std::vector<pollfd> none;
    while (!loop.receiver->try_receive(100, stamp()).value()) {
      ++polls;
      EXPECT_FALSE(loop.transport->prepare_wait(none)) << "it would have slept beside a message";
      loop.transport->finish_wait();
    }
    longest = std::max(longest, polls);
    shortest = std::min(shortest, polls);
  }
  EXPECT_EQ(longest, 4u);
  EXPECT_EQ(shortest, 0u);
}

TEST(Faulty, RefusesWithoutReasonNowAndThen) {
  Loop loop({.spurious_percent = 50});
  uint32_t refused = 0;
  for (uint32_t i = 0; i < 200; ++i) {
    while (!loop.sender->try_send(payload(i, 10), stamp()).value()) ++refused;
    while (!loop.receiver->try_receive(10, stamp()).value()) ++refused;
  }
  EXPECT_GT(refused, 100u);
}

TEST(Faulty, APeerDiesAfterItsLastMessage) {
  Loop loop({.death = FaultOptions::Death{.peer = Rank{0}, .after_messages = 3}});
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(loop.transport->check_peers().ok());
    ASSERT_TRUE(loop.sender->try_send(payload(i, 10), stamp()).value());
    ASSERT_TRUE(loop.receiver->try_receive(10, stamp()).value());
  }
  EXPECT_FALSE(loop.sender->try_send(payload(9, 10), stamp()).value());
  EXPECT_FALSE(loop.receiver->try_receive(10, stamp()).value());
  const Status status = loop.transport->check_peers();
  EXPECT_EQ(status.code(), tuttiRemoteError);
  EXPECT_THAT(status.c_str(), testing::HasSubstr(describe(0)));
}

}  // namespace
}  // namespace tutti::conformance
