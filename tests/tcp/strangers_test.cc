// Whoever talks to the listener without being a member is dropped, and disturbs nobody.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/tcp/ranks.h"
#include "transports/tcp/acceptor.h"

namespace tutti {
namespace {

tcp::HelloBytes hello_for(Transport& transport, const tcp::Hello& hello,
                          const std::vector<std::byte>& key = test_key()) {
  return tcp::encode_hello(hello, key, tcp::decode_address(transport.address())->cookie);
}

void say(const Fd& fd, const tcp::HelloBytes& hello) { say(fd, hello.data(), hello.size()); }

void expect_link_works(Ranks& ranks, SendLink& send, RecvLink& recv) {
  const auto message = random_bytes(5000, 3);
  ASSERT_TRUE(put_whole(send, message));
  expect_message(ranks, recv, message);
}

TEST(TcpStrangers, AreDroppedAndLinksOpenedMeanwhileWork) {
  Ranks ranks(2);
  const tcp::Hello genuine{Rank{0}, Rank{1}, ChannelId{0}, 0, 1};
  auto wrong_key = test_key();
  wrong_key[31] ^= std::byte{1};
  auto bent = hello_for(ranks[1], genuine);
  bent[4] ^= std::byte{3};  // the source rank: the proof no longer fits
  auto other_listener = hello_for(ranks[0], genuine);

  std::vector<Fd> strangers;
  const auto stranger = [&](const void* data, size_t bytes) {
    strangers.push_back(knock(ranks[1]));
    if (bytes > 0) say(strangers.back(), data, bytes);
  };
  const std::string http = "GET / HTTP/1.1\r\nHost: somebody-who-is-lost.example\r\nAccept: */*\r\n\r\n";
  stranger(http.data(), http.size());
  const auto noise = random_bytes(100000, 4);
  stranger(noise.data(), noise.size());
  say(strangers.emplace_back(knock(ranks[1])), hello_for(ranks[1], genuine, wrong_key));
  say(strangers.emplace_back(knock(ranks[1])), bent);
  say(strangers.emplace_back(knock(ranks[1])), other_listener);
  say(strangers.emplace_back(knock(ranks[1])), hello_for(ranks[1], {Rank{0}, Rank{0}, ChannelId{0}, 0, 1}));
  say(strangers.emplace_back(knock(ranks[1])), hello_for(ranks[1], {Rank{7}, Rank{1}, ChannelId{0}, 0, 1}));
  say(strangers.emplace_back(knock(ranks[1])), hello_for(ranks[1], {Rank{0}, Rank{1}, ChannelId{999}, 0, 1}));
  knock(ranks[1]).reset();                                        // comes and goes
  say(knock(ranks[1]), hello_for(ranks[1], genuine).data(), 20);  // goes in the middle of its hello

  auto recv = ranks.recv(1, 0);
  auto send = ranks.send(0, 1);
  expect_link_works(ranks, *send, *recv);
  EXPECT_TRUE(ranks.until([&] {
    EXPECT_TRUE(ranks[1].check_peers().ok());  // looks at the listener also when nobody awaits a connection
    return std::all_of(strangers.begin(), strangers.end(), is_closed);
  }));
  expect_link_works(ranks, *send, *recv);
}

TEST(TcpStrangers, WhoSaysNothingIsDroppedInTime) {
  Ranks ranks(2, {.hello_patience = 20 * kMillisecond});
  auto recv = ranks.recv(1, 0);
  std::vector<Fd> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(knock(ranks[1]));
  say(silent[2], hello_for(ranks[1], {Rank{0}, Rank{1}, ChannelId{0}, 0, 1}).data(), tcp::kHelloBytes - 1);
  EXPECT_TRUE(ranks.until([&] { return std::all_of(silent.begin(), silent.end(), is_closed); }));
  auto send = ranks.send(0, 1);
  expect_link_works(ranks, *send, *recv);
}

TEST(TcpStrangers, ACrowdOnlyDelaysMembers) {
  Ranks ranks(2, {.hello_patience = 50 * kMillisecond});
  auto recv = ranks.recv(1, 0);
  std::vector<Fd> crowd;
  for (size_t i = 0; i < tcp::kMaxPending + 20; ++i) crowd.push_back(knock(ranks[1]));
  auto send = ranks.send(0, 1);
  expect_link_works(ranks, *send, *recv);
  EXPECT_TRUE(ranks.until([&] {
    EXPECT_TRUE(ranks[1].check_peers().ok());
    return std::all_of(crowd.begin(), crowd.end(), is_closed);
  }));
}

TEST(TcpStrangers, AHelloInPiecesIsAHello) {
  Ranks ranks(2);
  auto recv = ranks.recv(1, 0);
  Fd sender = knock(ranks[1]);
  const auto hello = hello_for(ranks[1], {Rank{0}, Rank{1}, ChannelId{0}, 0, 1});
  for (const std::byte& byte : hello) {
    say(sender, &byte, 1);
    EXPECT_TRUE(ranks[1].progress().ok());
  }
  const auto payload = random_bytes(100, 1);
  const tcp::FrameHeader header{.message_bytes = payload.size(), .tag = kStamp.tag, .sequence = kStamp.sequence};
  say(sender, &header, sizeof header);
  say(sender, payload.data(), payload.size());
  expect_message(ranks, *recv, payload);
}

TEST(TcpStrangers, ARecordedHelloDoesNotReplaceAConnection) {
  Ranks ranks(2);
  auto recv = ranks.recv(1, 0);
  auto send = ranks.send(0, 1);
  expect_link_works(ranks, *send, *recv);
  Fd again = knock(ranks[1]);
  say(again, hello_for(ranks[1], {Rank{0}, Rank{1}, ChannelId{0}, 0, 1}));
  Fd other_count = knock(ranks[1]);
  say(other_count, hello_for(ranks[1], {Rank{0}, Rank{1}, ChannelId{0}, 1, 2}));
  EXPECT_TRUE(ranks.until([&] {
    EXPECT_TRUE(ranks[1].check_peers().ok());
    return is_closed(again) && is_closed(other_count);
  }));
  expect_link_works(ranks, *send, *recv);
}

TEST(TcpStrangers, ConnectionsOfAClosedLinkAreDropped) {
  Ranks ranks(2);
  ranks.recv(1, 0).reset();
  Fd late = knock(ranks[1]);
  say(late, hello_for(ranks[1], {Rank{0}, Rank{1}, ChannelId{0}, 0, 1}));
  EXPECT_TRUE(ranks.until([&] {
    EXPECT_TRUE(ranks[1].check_peers().ok());
    return is_closed(late);
  }));
}

TEST(TcpStrangers, AMemberThatTalksNonsenseIsAnError) {
  Ranks ranks(2);
  auto recv = ranks.recv(1, 0);
  Fd sender = knock(ranks[1]);
  say(sender, hello_for(ranks[1], {Rank{0}, Rank{1}, ChannelId{0}, 0, 1}));
  const auto noise = random_bytes(2000, 5);
  say(sender, noise.data(), noise.size());
  std::vector<std::byte> got(16);
  const auto arrival = receive_whole(ranks, *recv, got);
  ASSERT_FALSE(arrival.ok());
  EXPECT_EQ(arrival.status().code(), tuttiInternalError);
  EXPECT_NE(arrival.status().message().find("rank 0 (host h, pid 10)"), std::string_view::npos);
}

}  // namespace
}  // namespace tutti
