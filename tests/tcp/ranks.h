// Ranks of one process over loopback, and a raw socket for playing the stranger.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/network_interface.h"
#include "base/rng.h"
#include "transports/tcp/tcp.h"
#include "transports/tcp/wire.h"

namespace tutti {

constexpr Nanoseconds kForever = 30 * kSecond;  // a test that waits this long has failed
constexpr Stamp kStamp{.tag = 0x1234567890abcdefULL, .sequence = 7};

inline std::vector<std::byte> test_key() { return std::vector<std::byte>(32, std::byte{0x5a}); }

inline TransportContext loopback_context(uint32_t self, uint32_t nranks, AddressFamily family = AddressFamily::ipv4) {
  TransportContext context{.key = test_key(), .self = Rank{self}, .nranks = Rank{nranks}};
  context.config.socket_ifname = {.exact = true, .names = {"lo"}};
  context.config.socket_family = family;
  return context;
}

inline bool has_ipv6_loopback() {
  auto context = loopback_context(0, 1, AddressFamily::ipv6);
  return make_tcp_transport(context).ok();
}

inline std::string description_of(uint32_t rank) {
  return "rank " + std::to_string(rank) + " (host h, pid 1" + std::to_string(rank) + ")";
}

struct Ranks {
  explicit Ranks(uint32_t n, const TcpOptions& options = {}, const TransportContext& like = loopback_context(0, 1)) {
    std::vector<std::vector<std::byte>> addresses;
    for (uint32_t r = 0; r < n; ++r) {
      TransportContext context = like;
      context.self = Rank{r};
      context.nranks = Rank{n};
      auto made = make_tcp_transport(context, options);
      EXPECT_TRUE(made.ok()) << made.status().message();
      transports.push_back(std::move(*made));
      addresses.push_back(transports.back()->address());
      descriptions.push_back(description_of(r));
    }
    for (auto& transport : transports) EXPECT_TRUE(transport->set_peers(addresses, descriptions).ok());
  }

  Transport& operator[](size_t rank) { return *transports[rank]; }

  std::unique_ptr<SendLink> send(uint32_t from, uint32_t to, uint16_t channel = 0) {
    auto link = transports[from]->open_send(Rank{to}, ChannelId{channel});
    EXPECT_TRUE(link.ok()) << link.status().message();
    return std::move(*link);
  }
  std::unique_ptr<RecvLink> recv(uint32_t at, uint32_t from, uint16_t channel = 0) {
    auto link = transports[at]->open_recv(Rank{from}, ChannelId{channel});
    EXPECT_TRUE(link.ok()) << link.status().message();
    return std::move(*link);
  }

  // Drives all ranks until `done` says so; false when it never does.
  bool until(const std::function<bool()>& done) {
    for (const Nanoseconds start = steady_now(); steady_now() - start < kForever;) {
      for (auto& transport : transports) {
        if (transport) last_status = transport->progress();
      }
      if (done()) return true;
    }
    return false;
  }

  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::string> descriptions;
  Status last_status;
};

inline std::vector<std::byte> random_bytes(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<std::byte> bytes(count);
  for (auto& b : bytes) b = static_cast<std::byte>(rng.next());
  return bytes;
}

inline ConstPiece whole(const std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size()}; }
inline MutablePiece whole(std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size()}; }

inline bool put_whole(SendLink& link, const std::vector<std::byte>& bytes, const Stamp& stamp = kStamp) {
  const ConstPiece piece = whole(bytes);
  auto taken = link.put({&piece, 1}, stamp);
  EXPECT_TRUE(taken.ok()) << taken.status().message();
  return taken.ok() && *taken;
}

// Asks until the message has come (or something went wrong); its contents.
inline Result<Arrival> receive_whole(Ranks& ranks, RecvLink& link, std::vector<std::byte>& into,
                                     const Stamp& stamp = kStamp) {
  Result<Arrival> arrival = Arrival{};
  const MutablePiece piece = whole(into);
  EXPECT_TRUE(ranks.until([&] {
    arrival = link.receive({&piece, 1}, into.size(), stamp);
    return !arrival.ok() || arrival->state != Arrival::State::pending;
  }));
  if (arrival.ok() && arrival->state == Arrival::State::arrived) link.release();
  return arrival;
}

inline void expect_message(Ranks& ranks, RecvLink& link, const std::vector<std::byte>& expected) {
  std::vector<std::byte> got(expected.size());
  const auto arrival = receive_whole(ranks, link, got);
  ASSERT_TRUE(arrival.ok()) << arrival.status().message();
  ASSERT_EQ(arrival->state, Arrival::State::arrived);
  EXPECT_TRUE(got == expected);
}

// A blocking socket connected to the transport's listener.
inline Fd knock(const Transport& transport) {
  const auto address = tcp::decode_address(transport.address());
  Fd fd(::socket(address->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address->socket), bytes_of(address->socket)), 0);
  return fd;
}

// True once the other side has closed the connection.
inline bool is_closed(const Fd& fd) {
  char byte;
  const ssize_t got = ::recv(fd.get(), &byte, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN);
}

inline void say(const Fd& fd, const void* data, size_t bytes) {
  EXPECT_EQ(::send(fd.get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
}

}  // namespace tutti
