// Both directions of a channel share a connection, whichever end came first, and keep the order of messages on the way
// there.
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tcp/ranks.h"

namespace tutti {
namespace {

// Ends of established TCP connections that this process holds; a connection within the process has two.
size_t connected_ends() {
  size_t count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (const dirent* const entry = ::readdir(folder)) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    const int fd = std::atoi(entry->d_name);
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0) ++count;
  }
  ::closedir(folder);
  return count;
}

// One message each way.
void exchange(Ranks& ranks, SendLink& send_0, RecvLink& recv_0, SendLink& send_1, RecvLink& recv_1, size_t bytes,
              uint64_t seed) {
  const auto from_0 = random_bytes(bytes, seed), from_1 = random_bytes(bytes, seed + 1);
  ASSERT_TRUE(put_whole(send_0, from_0));
  ASSERT_TRUE(put_whole(send_1, from_1));
  expect_message(ranks, recv_1, from_0);
  expect_message(ranks, recv_0, from_1);
}

TEST(TcpDuplex, EndsThatOpenAtTheSameTimeComeToShareAConnection) {
  for (const uint32_t sockets : {1u, 3u}) {
    auto context = loopback_context(0, 1);
    context.config.sockets_per_link = sockets;
    Ranks ranks(2, {.stripe_threshold_bytes = 256}, context);
    const size_t before = connected_ends();
    auto send_0 = ranks.send(0, 1), send_1 = ranks.send(1, 0);
    auto recv_0 = ranks.recv(0, 1), recv_1 = ranks.recv(1, 0);
    for (uint64_t i = 0; i < 6; ++i) exchange(ranks, *send_0, *recv_0, *send_1, *recv_1, 1000 * (i % 3) + 1, 2 * i);
    EXPECT_EQ(connected_ends() - before, 2 * sockets);
  }
}

TEST(TcpDuplex, TheSecondDirectionUsesTheFirstOnesConnection) {
  // Whichever rank began, and whether or not it awaits anything.
  for (const uint32_t first : {0u, 1u}) {
    Ranks ranks(2);
    const size_t before = connected_ends();
    auto send = ranks.send(first, 1 - first);
    auto recv = ranks.recv(1 - first, first);
    const auto message = random_bytes(100, first), large = random_bytes(1 << 20, first + 2);
    ASSERT_TRUE(put_whole(*send, message));
    expect_message(ranks, *recv, message);
    auto back = ranks.send(1 - first, first);
    auto back_recv = ranks.recv(first, 1 - first);
    ASSERT_TRUE(put_whole(*back, large));
    expect_message(ranks, *back_recv, large);
    EXPECT_EQ(connected_ends() - before, 2u);
  }
}

TEST(TcpDuplex, MovingToTheSharedConnectionKeepsTheOrder) {
  auto context = loopback_context(0, 1);
  context.config.sockets_per_link = 3;
  Ranks ranks(2, {.stripe_threshold_bytes = 5000, .send_buffer_bytes = 4096}, context);
  // Rank 1, the one that moves, fills its own connection first, while rank 0's is not yet accepted.
  auto send_1 = ranks.send(1, 0);
  std::vector<std::vector<std::byte>> messages;
  for (uint64_t i = 0; i < 60; ++i) messages.push_back(random_bytes(i % 4 == 0 ? 20000 + i : 50 * i, i));
  size_t put = 0, got = 0;
  while (put_whole(*send_1, messages[put])) ++put;
  EXPECT_GT(put, 0u);
  auto send_0 = ranks.send(0, 1);
  auto recv_1 = ranks.recv(1, 0);
  auto recv_0 = ranks.recv(0, 1);
  std::vector<std::byte> into(messages[0].size());
  ASSERT_TRUE(ranks.until([&] {
    if (put < messages.size() && put_whole(*send_1, messages[put])) ++put;
    const MutablePiece piece = whole(into);
    const auto arrival = recv_0->receive({&piece, 1}, into.size(), kStamp);
    EXPECT_TRUE(arrival.ok()) << arrival.status().message();
    if (!arrival.ok() || arrival->state == Arrival::State::pending) return !arrival.ok();
    EXPECT_TRUE(into == messages[got]) << got;
    if (++got < messages.size()) into.assign(messages[got].size(), std::byte{0});
    return got == messages.size();
  }));
  EXPECT_EQ(send_1->retired(), messages.size());
  exchange(ranks, *send_0, *recv_0, *send_1, *recv_1, 30000, 99);
}

TEST(TcpDuplex, OneDirectionMayEndBeforeTheOther) {
  Ranks ranks(2);
  auto send_0 = ranks.send(0, 1), send_1 = ranks.send(1, 0);
  auto recv_0 = ranks.recv(0, 1), recv_1 = ranks.recv(1, 0);
  for (uint64_t i = 0; i < 3; ++i) exchange(ranks, *send_0, *recv_0, *send_1, *recv_1, 500, i);
  send_1.reset();
  std::vector<std::byte> got(500);
  const auto arrival = receive_whole(ranks, *recv_0, got);
  ASSERT_FALSE(arrival.ok());
  EXPECT_THAT(std::string(arrival.status().message()), ::testing::HasSubstr("closed"));
  const auto message = random_bytes(100000, 7);
  ASSERT_TRUE(put_whole(*send_0, message));
  expect_message(ranks, *recv_1, message);
}

TEST(TcpDuplex, WhatWasNotReadDoesNotTakeBackWhatWasSent) {
  // The small buffers keep most of what rank 0 sends on its side.
  Ranks ranks(2, {.send_buffer_bytes = 256 * 1024, .receive_buffer_bytes = 8192});
  auto send_0 = ranks.send(0, 1), send_1 = ranks.send(1, 0);
  auto recv_0 = ranks.recv(0, 1), recv_1 = ranks.recv(1, 0);
  for (uint64_t i = 0; i < 3; ++i) exchange(ranks, *send_0, *recv_0, *send_1, *recv_1, 500, i);
  ASSERT_TRUE(put_whole(*send_1, random_bytes(600, 5)));  // never asked for
  const auto last = random_bytes(100000, 6);
  ASSERT_TRUE(put_whole(*send_0, last));
  ASSERT_TRUE(ranks.until([&] { return ranks[0].drained(); }));
  EXPECT_EQ(send_0->retired(), 4u);
  send_0.reset();
  recv_0.reset();
  ranks.transports[0].reset();
  expect_message(ranks, *recv_1, last);
}

TEST(TcpDuplex, AnAnswerWithoutTheProofIsAnError) {
  // Something else listens where rank 1 did.
  const auto impostor = listen_tcp(*parse_address("127.0.0.1", 0), {});
  ASSERT_TRUE(impostor.ok());
  auto made = make_tcp_transport(loopback_context(0, 2));
  ASSERT_TRUE(made.ok());
  auto address = *tcp::decode_address((*made)->address());
  const auto own = tcp::encode_address(address);
  address.socket = impostor->address;
  ASSERT_TRUE((*made)->set_peers({own, tcp::encode_address(address)}, {description_of(0), description_of(1)}).ok());
  auto send = (*made)->open_send(Rank{1}, ChannelId{0});
  auto recv = (*made)->open_recv(Rank{1}, ChannelId{0});
  ASSERT_TRUE(send.ok() && recv.ok());
  ASSERT_TRUE((*made)->progress().ok());
  pollfd knocking{impostor->fd.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&knocking, 1, 10000), 1);
  const Fd accepted(::accept(impostor->fd.get(), nullptr, nullptr));
  // The right words, said by somebody who does not know the key.
  auto key = test_key();
  key[0] ^= std::byte{1};
  const auto answer = tcp::encode_hello({Rank{1}, Rank{0}, ChannelId{0}, 0, 1, tcp::Hello::Kind::answer}, key,
                                        address.cookie);
  say(accepted, answer.data(), answer.size());
  std::vector<std::byte> got(10);
  const MutablePiece piece = whole(got);
  Status status;
  for (const Nanoseconds start = steady_now(); status.ok() && steady_now() - start < kForever;) {
    EXPECT_TRUE((*made)->progress().ok());
    status = (*recv)->receive({&piece, 1}, got.size(), kStamp).status();
  }
  EXPECT_EQ(status.code(), tuttiRemoteError);
  EXPECT_THAT(std::string(status.message()),
              ::testing::AllOf(::testing::HasSubstr(description_of(1)), ::testing::HasSubstr("prove")));
}

}  // namespace
}  // namespace tutti
