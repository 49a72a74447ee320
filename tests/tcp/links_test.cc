// What travels over tcp links arrives: sizes, pieces, stripes, tiny buffers, order, detached memory, wake-ups.
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "tests/tcp/ranks.h"

namespace tutti {
namespace {

// Cuts a message into pieces at random places, some of them empty.
template <class Piece, class Byte>
std::vector<Piece> cut(Byte* data, size_t bytes, uint64_t seed) {
  Rng rng(seed);
  std::vector<Piece> pieces = {{data, 0}};
  for (size_t at = 0; at < bytes;) {
    const size_t take = std::min<size_t>(bytes - at, rng.below(bytes / 5 + 3));
    pieces.push_back({data + at, take});
    at += take;
  }
  pieces.push_back({data + bytes, 0});
  return pieces;
}

void exchange_all_sizes(Ranks& ranks) {
  auto send = ranks.send(0, 1);
  auto recv = ranks.recv(1, 0);
  uint64_t seed = 1;
  for (const size_t bytes : {0, 1, 63, 64, 65, 127, 129, 1000, 1024, 1025, 4097, 65537, 100001, (1 << 20) + 7, 3}) {
    const auto source = random_bytes(bytes, ++seed);
    const auto from = cut<ConstPiece>(source.data(), bytes, seed);
    std::vector<std::byte> got(bytes);
    const auto into = cut<MutablePiece>(got.data(), bytes, seed + 1000);
    auto taken = send->put(from, kStamp);
    ASSERT_TRUE(taken.ok() && *taken);
    Result<Arrival> arrival = Arrival{};
    ASSERT_TRUE(ranks.until([&] {
      arrival = recv->receive(into, bytes, kStamp);
      return !arrival.ok() || arrival->state != Arrival::State::pending;
    }));
    ASSERT_TRUE(arrival.ok()) << arrival.status().message();
    ASSERT_EQ(arrival->state, Arrival::State::arrived) << bytes;
    recv->release();
    EXPECT_TRUE(got == source) << bytes;
    EXPECT_EQ(send->retired(), seed - 1);
  }
  EXPECT_TRUE(ranks[0].drained());
}

TEST(TcpLinks, CarryMessagesOfAllSizesInPieces) {
  Ranks ranks(2);
  exchange_all_sizes(ranks);
}

TEST(TcpLinks, CarryMessagesOfAllSizesOverIpv6) {
  if (!has_ipv6_loopback()) GTEST_SKIP() << "this host has no IPv6 loopback address";
  Ranks ranks(2, {}, loopback_context(0, 1, AddressFamily::ipv6));
  EXPECT_EQ(tcp::decode_address(ranks[0].address())->socket.ss_family, AF_INET6);
  exchange_all_sizes(ranks);
}

TEST(TcpLinks, StripesPutOddSizesTogetherAgain) {
  for (const uint32_t sockets : {2u, 3u, 7u}) {
    auto context = loopback_context(0, 1);
    context.config.sockets_per_link = sockets;
    Ranks ranks(2, {.stripe_threshold_bytes = 64}, context);
    exchange_all_sizes(ranks);
  }
}

TEST(TcpLinks, StripesWithTinyBuffersKeepTheOrderOfMessages) {
  auto context = loopback_context(0, 1);
  context.config.sockets_per_link = 3;
  Ranks ranks(2, {.stripe_threshold_bytes = 500, .send_buffer_bytes = 4096}, context);
  auto send = ranks.send(0, 1);
  auto recv = ranks.recv(1, 0);
  // Small messages travel on one stripe and large ones on all, so order is not what the sockets alone would give.
  std::vector<std::vector<std::byte>> messages;
  for (uint64_t i = 0; i < 40; ++i) messages.push_back(random_bytes(i % 3 == 0 ? 100 * i : 20000 + 77 * i, i));
  size_t put = 0, got = 0;
  std::vector<std::byte> into(messages[0].size());
  ASSERT_TRUE(ranks.until([&] {
    if (put < messages.size() && put_whole(*send, messages[put])) ++put;
    const MutablePiece piece = whole(into);
    const auto arrival = recv->receive({&piece, 1}, into.size(), kStamp);
    EXPECT_TRUE(arrival.ok()) << arrival.status().message();
    if (!arrival.ok()) return true;
    EXPECT_NE(arrival->state, Arrival::State::mismatch) << got;
    if (arrival->state == Arrival::State::pending) return false;
    recv->release();
    EXPECT_TRUE(into == messages[got]) << got;
    if (++got < messages.size()) into.assign(messages[got].size(), std::byte{0});
    return got == messages.size();
  }));
  EXPECT_EQ(send->retired(), messages.size());
}

TEST(TcpLinks, PartialWritesWithATinySendBuffer) {
  Ranks ranks(2, {.send_buffer_bytes = 2048});
  exchange_all_sizes(ranks);
}

TEST(TcpLinks, CarryAHugeMessage) {
  Ranks ranks(2);
  auto send = ranks.send(0, 1);
  auto recv = ranks.recv(1, 0);
  std::vector<std::byte> source(48 << 20);
  for (size_t i = 0; i < source.size(); i += 4093) source[i] = static_cast<std::byte>(i / 4093);
  ASSERT_TRUE(put_whole(*send, source));
  EXPECT_EQ(send->retired(), 0u);
  EXPECT_FALSE(ranks[0].drained());
  expect_message(ranks, *recv, source);
  EXPECT_EQ(send->retired(), 1u);
  EXPECT_TRUE(ranks[0].drained());
}

TEST(TcpLinks, TakeMessagesBeforeTheReceiverDoesAnything) {
  Ranks ranks(2);
  auto send = ranks.send(0, 1);
  const auto large = random_bytes(2 << 20, 1);
  ASSERT_TRUE(put_whole(*send, large));
  size_t taken = 1;
  while (put_whole(*send, large)) ++taken;
  auto recv = ranks.recv(1, 0);
  for (size_t i = 0; i < taken; ++i) expect_message(ranks, *recv, large);
  EXPECT_EQ(send->retired(), taken);
}

TEST(TcpLinks, AConnectionMayComeLongBeforeItsLinkIsOpened) {
  Ranks ranks(3);
  auto send = ranks.send(0, 1, 5);
  auto other = ranks.send(2, 1, 5);
  const auto message = random_bytes(300, 1), second = random_bytes(200, 2);
  ASSERT_TRUE(put_whole(*send, message));
  ASSERT_TRUE(put_whole(*other, second));
  // Opening one makes the receiver accept both.
  auto recv = ranks.recv(1, 0, 5);
  expect_message(ranks, *recv, message);
  auto other_recv = ranks.recv(1, 2, 5);
  expect_message(ranks, *other_recv, second);
}

TEST(TcpLinks, SmallMessagesAreRetiredAtOnce) {
  Ranks ranks(2, {.send_buffer_bytes = 2048});
  auto send = ranks.send(0, 1);
  auto recv = ranks.recv(1, 0);
  std::vector<std::byte> source(tcp::kHelloBytes * 10);
  size_t taken = 0;
  // Without progress() on the other side the socket fills up, then the queue.
  for (;;) {
    std::fill(source.begin(), source.end(), static_cast<std::byte>(taken));
    if (!put_whole(*send, source)) break;
    EXPECT_EQ(send->retired(), ++taken);
  }
  for (size_t i = 0; i < taken; ++i) {
    expect_message(ranks, *recv, std::vector<std::byte>(source.size(), static_cast<std::byte>(i)));
  }
}

TEST(TcpLinks, DetachCopiesWhatIsUnsent) {
  for (const uint32_t sockets : {1u, 3u}) {
    auto context = loopback_context(0, 1);
    context.config.sockets_per_link = sockets;
    Ranks ranks(2, {.send_buffer_bytes = 4096}, context);
    auto send = ranks.send(0, 1);
    auto recv = ranks.recv(1, 0);
    const auto original = random_bytes(1 << 20, 1), after = random_bytes(1 << 18, 2);
    auto source = original;
    ASSERT_TRUE(put_whole(*send, source));
    ASSERT_EQ(send->retired(), 0u);
    send->detach();
    EXPECT_EQ(send->retired(), 1u);
    std::fill(source.begin(), source.end(), std::byte{0xee});
    ASSERT_TRUE(put_whole(*send, after));
    EXPECT_EQ(send->retired(), 1u);
    expect_message(ranks, *recv, original);
    expect_message(ranks, *recv, after);
  }
}

TEST(TcpLinks, NothingIsLostWhenTheSenderLeavesAfterItsLastMessage) {
  Ranks ranks(2);
  auto recv = ranks.recv(1, 0);
  const auto message = random_bytes(16 << 20, 1);
  {
    auto send = ranks.send(0, 1);
    auto source = message;
    ASSERT_TRUE(put_whole(*send, source));
    send->detach();
  }
  // The link is gone and the transport still has the copy.
  EXPECT_FALSE(ranks[0].drained());
  std::vector<std::byte> got(message.size());
  const MutablePiece piece = whole(got);
  Result<Arrival> arrival = Arrival{};
  ASSERT_TRUE(ranks.until([&] {
    // As soon as everything has left the process, the process may go.
    if (ranks.transports[0] && ranks[0].drained()) ranks.transports[0].reset();
    arrival = recv->receive({&piece, 1}, got.size(), kStamp);
    return !arrival.ok() || arrival->state != Arrival::State::pending;
  }));
  ASSERT_TRUE(arrival.ok()) << arrival.status().message();
  EXPECT_TRUE(got == message);
}

TEST(TcpLinks, LinksToOneselfWork) {
  Ranks ranks(1);
  auto send = ranks.send(0, 0);
  auto recv = ranks.recv(0, 0);
  const auto message = random_bytes(10000, 1);
  ASSERT_TRUE(put_whole(*send, message));
  expect_message(ranks, *recv, message);
}

TEST(TcpLinks, AnotherStampOrSizeIsAMismatchThatTouchesNothing) {
  for (const size_t sent_bytes : {40u, 5000u}) {
    Ranks ranks(2);
    auto send = ranks.send(0, 1);
    auto recv = ranks.recv(1, 0);
    auto size_send = ranks.send(0, 1, 1);
    auto size_recv = ranks.recv(1, 0, 1);
    const auto message = random_bytes(sent_bytes, 1);
    ASSERT_TRUE(put_whole(*send, message, {.tag = 99, .sequence = 8}));
    ASSERT_TRUE(put_whole(*size_send, message));
    for (int i = 0; i < 2; ++i) {  // sticky
      std::vector<std::byte> got(sent_bytes, std::byte{0xaa});
      auto arrival = receive_whole(ranks, *recv, got);
      ASSERT_TRUE(arrival.ok());
      EXPECT_EQ(arrival->state, Arrival::State::mismatch);
      EXPECT_EQ(arrival->stamp, (Stamp{.tag = 99, .sequence = 8}));
      EXPECT_EQ(arrival->bytes, sent_bytes);
      EXPECT_TRUE(got == std::vector<std::byte>(sent_bytes, std::byte{0xaa}));

      std::vector<std::byte> shorter(sent_bytes - 8, std::byte{0xaa});
      arrival = receive_whole(ranks, *size_recv, shorter);
      ASSERT_TRUE(arrival.ok());
      EXPECT_EQ(arrival->state, Arrival::State::mismatch);
      EXPECT_EQ(arrival->stamp, kStamp);
      EXPECT_EQ(arrival->bytes, sent_bytes);
      EXPECT_TRUE(shorter == std::vector<std::byte>(sent_bytes - 8, std::byte{0xaa}));
    }
  }
}

TEST(TcpLinks, WaitOnNothingWhenIdle) {
  Ranks ranks(2);
  auto send = ranks.send(0, 1);
  auto recv = ranks.recv(1, 0);
  const auto message = random_bytes(100, 1);
  ASSERT_TRUE(put_whole(*send, message));
  expect_message(ranks, *recv, message);
  for (size_t r = 0; r < 2; ++r) {
    std::vector<pollfd> descriptors;
    EXPECT_TRUE(ranks[r].prepare_wait(descriptors));
    EXPECT_TRUE(descriptors.empty()) << r;
    ranks[r].finish_wait();
  }
}

// Each rank on a thread of its own, blocking in poll() on what prepare_wait() names and on nothing else.
TEST(TcpLinks, PreparedDescriptorsWakeAWaitingRank) {
  Ranks ranks(2, {.send_buffer_bytes = 4096});
  constexpr int kRounds = 60;
  const auto play = [&](uint32_t self) {
    Transport& transport = ranks[self];
    auto send = ranks.send(self, 1 - self);
    auto recv = ranks.recv(self, 1 - self);
    std::vector<pollfd> descriptors;
    const auto wait_for = [&](const std::function<bool()>& done) {
      for (const Nanoseconds start = steady_now(); steady_now() - start < kForever;) {
        EXPECT_TRUE(transport.progress().ok());
        if (done()) return true;
        descriptors.clear();
        if (transport.prepare_wait(descriptors)) {
          EXPECT_FALSE(descriptors.empty());
          // A lost wake-up would make this take the full time and the test fail.
          EXPECT_GT(::poll(descriptors.data(), descriptors.size(), 20000), 0);
        }
        transport.finish_wait();
      }
      return false;
    };
    for (int i = 0; i < kRounds; ++i) {
      const size_t bytes = i % 2 == 0 ? 64 : 50000;
      const auto mine = random_bytes(bytes, 2 * i + self), theirs = random_bytes(bytes, 2 * i + 1 - self);
      std::vector<std::byte> got(bytes);
      const MutablePiece piece = whole(got);
      bool put = false;
      const bool finished = wait_for([&] {
        put = put || put_whole(*send, mine);
        const auto arrival = recv->receive({&piece, 1}, bytes, kStamp);
        EXPECT_TRUE(arrival.ok()) << arrival.status().message();
        return !arrival.ok() || arrival->state != Arrival::State::pending;
      });
      EXPECT_TRUE(finished && got == theirs) << i;
      recv->release();
      if (!finished || !wait_for([&] { return transport.drained(); })) return;
      if (::testing::Test::HasFailure()) return;
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
}

}  // namespace
}  // namespace tutti
