// What goes wrong is told with names: ports, interfaces, peers that die, limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/tcp/ranks.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string text(const Status& status) { return std::string(status.message()); }

TEST(TcpFailures, APortRangeThatIsTakenIsNamed) {
  const auto any = listen_tcp(*parse_address("127.0.0.1", 0), {});
  ASSERT_TRUE(any.ok());
  const uint16_t port = port_of(any->address);
  auto context = loopback_context(0, 1);
  context.config.port_range = {port, port};
  const auto made = make_tcp_transport(context);
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(text(made.status()), AllOf(HasSubstr(std::to_string(port)), HasSubstr("127.0.0.1")));
}

TEST(TcpFailures, APortRangeIsUsedUpBeforeItIsAnError) {
  // A range of two in which both are free at first: found by trying.
  for (uint16_t first = 20011; first < 32000; first += 97) {
    auto context = loopback_context(0, 1);
    context.config.port_range = {first, static_cast<uint16_t>(first + 1)};
    auto one = make_tcp_transport(context);
    if (!one.ok()) continue;
    auto two = make_tcp_transport(context);
    if (!two.ok()) continue;
    std::vector<uint16_t> ports;
    for (auto* each : {&one, &two}) ports.push_back(port_of(tcp::decode_address((**each)->address())->socket));
    EXPECT_THAT(ports, ::testing::UnorderedElementsAre(first, first + 1));
    const auto three = make_tcp_transport(context);
    ASSERT_FALSE(three.ok());
    EXPECT_THAT(text(three.status()), AllOf(HasSubstr(std::to_string(first)), HasSubstr(std::to_string(first + 1)),
                                            HasSubstr("TUTTI_PORT_RANGE")));
    // The port of a listener that is gone is free at once, also after connections.
    one->reset();
    EXPECT_TRUE(make_tcp_transport(context).ok());
    return;
  }
  FAIL() << "no two neighbouring ports are free on this host";
}

TEST(TcpFailures, AnInterfaceThatDoesNotExistListsThoseThatDo) {
  auto context = loopback_context(0, 1);
  context.config.socket_ifname = {.exact = true, .names = {"nosuch0"}};
  const auto made = make_tcp_transport(context);
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(text(made.status()), AllOf(HasSubstr("nosuch0"), HasSubstr("lo")));
}

TEST(TcpFailures, ACongestionControlThatTheKernelHasNotListsThoseThatItHas) {
  auto context = loopback_context(0, 1);
  context.config.socket_congestion = "nosuch";
  const auto made = make_tcp_transport(context);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), tuttiInvalidUsage);
  EXPECT_THAT(text(made.status()), AllOf(HasSubstr("TUTTI_SOCKET_CONGESTION=nosuch"), HasSubstr("cubic")));
}

TEST(TcpFailures, UnreachablePeersAreGivenAReason) {
  auto mine = make_tcp_transport(loopback_context(0, 6));
  ASSERT_TRUE(mine.ok());
  auto address = *tcp::decode_address((*mine)->address());
  std::vector<std::vector<std::byte>> addresses(6, (*mine)->address());
  addresses[1].clear();
  address.host ^= 1;
  addresses[2] = tcp::encode_address(address);
  address.socket = *parse_address("fd00::7", 4711);
  addresses[3] = tcp::encode_address(address);
  addresses[4] = random_bytes(56, 1);
  addresses[5][4] ^= std::byte{0x40};  // the version
  std::vector<std::string> descriptions;
  for (uint32_t r = 0; r < 6; ++r) descriptions.push_back(description_of(r));
  ASSERT_TRUE((*mine)->set_peers(addresses, descriptions).ok());

  EXPECT_EQ((*mine)->unreachable_reason(Rank{0}), "");
  EXPECT_THAT((*mine)->unreachable_reason(Rank{1}), HasSubstr("no tcp address"));
  EXPECT_THAT((*mine)->unreachable_reason(Rank{2}), AllOf(HasSubstr("127.0.0.1"), HasSubstr("TUTTI_SOCKET_IFNAME")));
  EXPECT_THAT((*mine)->unreachable_reason(Rank{3}), AllOf(HasSubstr("fd00::7 (IPv6)"), HasSubstr("127.0.0.1 (IPv4)")));
  EXPECT_THAT((*mine)->unreachable_reason(Rank{4}), HasSubstr("no tcp address"));
  EXPECT_THAT((*mine)->unreachable_reason(Rank{5}), HasSubstr("version"));
  const auto link = (*mine)->open_send(Rank{3}, ChannelId{0});
  ASSERT_FALSE(link.ok());
  EXPECT_THAT(text(link.status()), AllOf(HasSubstr(description_of(3)), HasSubstr("IPv6")));
}

TEST(TcpFailures, APeerThatNoLongerListensIsNamed) {
  Ranks ranks(2, {.refusal_patience = 20 * kMillisecond});
  ranks.transports[1].reset();
  auto send = ranks.send(0, 1);
  ASSERT_TRUE(put_whole(*send, random_bytes(10, 1)));
  ASSERT_TRUE(ranks.until([&] { return !ranks.last_status.ok() || !ranks[0].check_peers().ok(); }));
  const Status status = ranks[0].progress();
  EXPECT_EQ(status.code(), tuttiRemoteError);
  EXPECT_THAT(text(status), AllOf(HasSubstr(description_of(1)), HasSubstr("127.0.0.1:"), HasSubstr("ECONNREFUSED")));
  const auto again = send->put({}, kStamp);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(text(again.status()), text(status));
}

TEST(TcpFailures, TheEndOfAConnectionIsToldToWhoAwaitsAMessage) {
  Ranks ranks(2);
  auto recv = ranks.recv(1, 0);
  auto send = ranks.send(0, 1);
  const auto message = random_bytes(10, 1);
  ASSERT_TRUE(put_whole(*send, message));
  expect_message(ranks, *recv, message);
  send.reset();
  // Leaving is no failure as long as nobody asks for more.
  EXPECT_TRUE(ranks[1].check_peers().ok());
  EXPECT_TRUE(ranks[1].progress().ok());
  std::vector<std::byte> got(10);
  for (int i = 0; i < 2; ++i) {  // sticky
    const auto arrival = receive_whole(ranks, *recv, got);
    ASSERT_FALSE(arrival.ok());
    EXPECT_EQ(arrival.status().code(), tuttiRemoteError);
    EXPECT_THAT(text(arrival.status()),
                AllOf(HasSubstr("connection from " + description_of(0)), HasSubstr("127.0.0.1:"), HasSubstr("closed")));
  }
}

TEST(TcpFailures, ASenderThatIsGivenUpInMidMessageIsNamed) {
  Ranks ranks(2);
  auto recv = ranks.recv(1, 0);
  auto send = ranks.send(0, 1);
  std::vector<std::byte> large(64 << 20), got(large.size());
  ASSERT_TRUE(put_whole(*send, large));
  send.reset();
  EXPECT_TRUE(ranks[0].drained());
  const auto arrival = receive_whole(ranks, *recv, got);
  ASSERT_FALSE(arrival.ok());
  EXPECT_THAT(text(arrival.status()), AllOf(HasSubstr(description_of(0)), HasSubstr("in the middle of a message")));
}

TEST(TcpFailures, AReceiverThatGoesAwayIsNamed) {
  Ranks ranks(2);
  auto recv = ranks.recv(1, 0);
  auto send = ranks.send(0, 1);
  const auto message = random_bytes(100, 1);
  ASSERT_TRUE(put_whole(*send, message));
  expect_message(ranks, *recv, message);
  recv.reset();
  const std::vector<std::byte> large(16 << 20);
  ASSERT_TRUE(ranks.until([&] {
    const ConstPiece piece = whole(large);
    return !send->put({&piece, 1}, kStamp).ok() || !ranks[0].progress().ok() || !ranks[0].check_peers().ok();
  }));
  const Status status = ranks[0].check_peers();
  EXPECT_EQ(status.code(), tuttiRemoteError);
  EXPECT_THAT(text(status), AllOf(HasSubstr("connection to " + description_of(1)), HasSubstr("127.0.0.1:")));
}

TEST(TcpFailures, AResetConnectionIsFoundByALookAtThePeers) {
  Ranks ranks(2);
  auto recv = ranks.recv(1, 0);
  Fd sender = knock(ranks[1]);
  const auto hello = tcp::encode_hello({Rank{0}, Rank{1}, ChannelId{0}, 0, 1}, test_key(),
                                       tcp::decode_address(ranks[1].address())->cookie);
  say(sender, hello.data(), hello.size());
  std::vector<pollfd> descriptors;
  ASSERT_TRUE(ranks.until([&] {  // the connection is accepted: nothing is awaited at the listener any more
    descriptors.clear();
    return ranks[1].prepare_wait(descriptors) && descriptors.empty();
  }));
  EXPECT_TRUE(ranks[1].check_peers().ok());
  const linger hard{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(sender.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  sender.reset();
  ASSERT_TRUE(ranks.until([&] { return !ranks[1].check_peers().ok(); }));
  EXPECT_THAT(text(ranks[1].check_peers()),
              AllOf(HasSubstr("connection from " + description_of(0)), HasSubstr("ECONNRESET")));
}

TEST(TcpFailures, APeerThatWasSentNothingMayLeave) {
  Ranks ranks(2);
  auto send = ranks.send(0, 1);
  ASSERT_TRUE(ranks.until([&] {
    std::vector<pollfd> descriptors;
    return ranks[0].prepare_wait(descriptors) && descriptors.empty();  // the hello has been sent
  }));
  // The connection still waits to be accepted, so that the peer's end resets it.
  ranks.transports[1].reset();
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(ranks[0].check_peers().ok());
    EXPECT_TRUE(ranks[0].progress().ok());
  }
  // It is one as soon as there is something to send.
  const auto message = random_bytes(10, 1);
  const ConstPiece piece = whole(message);
  const auto taken = send->put({&piece, 1}, kStamp);
  ASSERT_FALSE(taken.ok());
  EXPECT_THAT(text(taken.status()), HasSubstr(description_of(1)));
}

// The sender is another process and is killed while a message is under way.
TEST(TcpFailures, AKilledSenderIsNamed) {
  Ranks ranks(2);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto link = ranks[0].open_send(Rank{1}, ChannelId{0});
    const std::vector<std::byte> large(64 << 20, std::byte{1});
    const ConstPiece piece = whole(large);
    if (!link.ok() || !(*link)->put({&piece, 1}, kStamp).ok()) ::_exit(1);
    while (ranks[0].progress().ok()) {
    }
    ::_exit(2);
  }
  auto recv = ranks.recv(1, 0);
  ranks.transports[0].reset();  // only the child is rank 0
  std::vector<std::byte> got(64 << 20);
  const MutablePiece piece = whole(got);
  Result<Arrival> arrival = Arrival{};
  bool killed = false;
  ASSERT_TRUE(ranks.until([&] {
    arrival = recv->receive({&piece, 1}, got.size(), kStamp);
    if (!killed && got[1000] == std::byte{1}) {
      ::kill(child, SIGKILL);
      killed = true;
    }
    return !arrival.ok() || arrival->state != Arrival::State::pending;
  }));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  ASSERT_FALSE(arrival.ok());
  EXPECT_EQ(arrival.status().code(), tuttiRemoteError);
  EXPECT_THAT(text(arrival.status()), HasSubstr("connection from " + description_of(0)));
}

TEST(TcpFailures, RunningOutOfDescriptorsSaysWhatToDo) {
  Ranks ranks(2);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ::close(next);
  rlimit low = before;
  low.rlim_cur = static_cast<rlim_t>(next) + 2;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<std::unique_ptr<SendLink>> links;
  Status status;
  for (uint16_t channel = 0; channel < 8 && status.ok(); ++channel) {
    auto link = ranks[0].open_send(Rank{1}, ChannelId{channel});
    status = link.status();
    if (link.ok()) links.push_back(std::move(*link));
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), tuttiSystemError);
  EXPECT_THAT(text(status), AllOf(HasSubstr("EMFILE"), HasSubstr("ulimit -n"), HasSubstr("TUTTI_ALGO=ring"),
                                  HasSubstr(std::to_string(next + 2))));
}

TEST(TcpFailures, AnAcceptorWithoutDescriptorsSaysWhatToDo) {
  Ranks ranks(2);
  auto send = ranks.send(0, 1);
  auto recv = ranks.recv(1, 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  const int next = ::dup(0);
  ::close(next);
  low.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const Status status = ranks[1].progress();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(text(status), AllOf(HasSubstr("accept4"), HasSubstr("EMFILE"), HasSubstr("ulimit -n")));
}

TEST(TcpFailures, ALinkIsOpenedOnce) {
  Ranks ranks(2);
  auto send = ranks.send(0, 1);
  auto recv = ranks.recv(1, 0);
  EXPECT_FALSE(ranks[0].open_send(Rank{1}, ChannelId{0}).ok());
  EXPECT_FALSE(ranks[1].open_recv(Rank{0}, ChannelId{0}).ok());
  EXPECT_FALSE(ranks[0].open_send(Rank{2}, ChannelId{0}).ok());
  EXPECT_FALSE(ranks[0].open_send(Rank{1}, ChannelId{Transport::kMaxChannels}).ok());
}

}  // namespace
}  // namespace tutti
