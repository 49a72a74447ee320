// What goes wrong at the meeting point, and who is told what.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bootstrap/control.h"
#include "group_fixture.h"

namespace tutti::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string text(const Status& status) { return std::string(status.message()); }
std::string text(const ControlResult& result) { return text(result.status()); }

// A plain socket connected to the hub.
Fd stranger(const MeetingPoint& point) {
  const sockaddr_storage address = parse_address(point.host, point.port).value();
  Fd fd(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes_of(address)), 0);
  return fd;
}

void say(const Fd& fd, std::string_view text) {
  // The hub may have hung up already; that is its right.
  (void)!::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

// True when the hub closes this connection within 20 s.
bool hung_up(const Fd& fd) {
  const timeval patience{20, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char ignored[4096];
  for (;;) {
    const ssize_t got = ::recv(fd.get(), ignored, sizeof ignored, 0);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
    if (got < 0 && errno != EINTR) return false;
  }
}

// More than the suite is given: who waits for so long fails it.
constexpr double kPatientSeconds = 600;

// 16 ports, as launchers' are, of which the first was free a moment ago.
MeetingPoint launchers_point() {
  const uint16_t port = port_of(listen_tcp(parse_address("127.0.0.1", 0).value(), {}).value().address);
  return {"127.0.0.1", port, 16, make_secret()};
}

TEST(Strangers, DoNotDisturbTheRanks) {
  const auto hub = make_hub();
  const MeetingPoint point = hub->meeting_point();
  std::vector<Fd> half_open;
  for (int i = 0; i < 20; ++i) half_open.push_back(stranger(point));
  say(half_open[0], "GET / HTTP/1.1\r\nHost: here\r\n\r\n");
  say(half_open[1], std::string(100'000, '\xff'));
  say(half_open[2], std::string_view("\x10\0\0", 3));
  // A frame that is right but for what is in it.
  const wire::SharedFrame hello = wire::frame(wire::Type::hello, wire::Bytes(200));
  say(half_open[3], {reinterpret_cast<const char*>(hello->data()), hello->size()});
  const wire::SharedFrame early = wire::frame(wire::Type::leaving);
  say(half_open[4], {reinterpret_cast<const char*>(early->data()), early->size()});
  const auto group = make_group(point, 4);
  ASSERT_FALSE(HasFailure());
  for (int i : {0, 1, 3, 4}) EXPECT_TRUE(hung_up(half_open[static_cast<size_t>(i)])) << i;
  EXPECT_FALSE(group[0]->poll().failure.has_value());
}

TEST(Strangers, WhoSaysNothingIsDropped) {
  const auto hub = make_hub();
  EXPECT_TRUE(hung_up(stranger(hub->meeting_point())));
}

TEST(Strangers, MoreThanTheHubServesAtOnceOnlyQueue) {
  const auto hub = make_hub();
  std::vector<Fd> crowd;
  for (int i = 0; i < 300; ++i) crowd.push_back(stranger(hub->meeting_point()));
  // The hub has no room until the first of the crowd lose its patience.
  make_group(hub->meeting_point(), 2);
}

TEST(JoinFails, WithTheWrongKeyAtOnceAndForThisRankAlone) {
  const auto hub = make_hub();
  MeetingPoint wrong = hub->meeting_point();
  wrong.key[31] ^= std::byte{1};
  const ControlResult result = join(wrong, introduction(0, 2));
  EXPECT_EQ(result.status().code(), tuttiInvalidArgument);
  EXPECT_THAT(text(result), AllOf(HasSubstr("does not accept this rank's key"), HasSubstr("TUTTI_SECRET_FILE")));
  make_group(hub->meeting_point(), 2);
}

TEST(JoinFails, WhenARankIsClaimedTwice) {
  const auto hub = make_hub();
  std::vector<Introduction> ranks = {introduction(0, 4), introduction(1, 4), introduction(1, 4)};
  ranks[2].host = "elsewhere";
  ranks[2].pid = 77;
  for (const ControlResult& result : join_all(hub->meeting_point(), ranks)) {
    EXPECT_EQ(result.status().code(), tuttiInvalidUsage);
    EXPECT_THAT(text(result), AllOf(HasSubstr("rank 1 was claimed twice"), HasSubstr("host host1, pid 1001"),
                                    HasSubstr("host elsewhere, pid 77")));
  }
}

TEST(JoinFails, ForALatecomerWithoutDisturbingTheGroup) {
  const auto hub = make_hub();
  const auto group = make_group(hub->meeting_point(), 2);
  const ControlResult late = join(hub->meeting_point(), introduction(1, 2));
  EXPECT_EQ(late.status().code(), tuttiInvalidUsage);
  EXPECT_THAT(text(late), AllOf(HasSubstr("complete already"), HasSubstr("rank 1 (host host1, pid 1001)")));
  EXPECT_FALSE(group[0]->poll().failure.has_value());
  EXPECT_FALSE(group[1]->poll().failure.has_value());
}

TEST(JoinFails, WhenTheNumberOfRanksDiffers) {
  const auto hub = make_hub();
  const auto results = join_all(hub->meeting_point(), {introduction(0, 3), introduction(1, 4)});
  for (const ControlResult& result : results) {
    EXPECT_EQ(result.status().code(), tuttiInvalidUsage);
    EXPECT_THAT(text(result), AllOf(HasSubstr("rank 0 (host host0, pid 1000) says there are 3"),
                                    HasSubstr("rank 1 (host host1, pid 1001) says there are 4")));
  }
}

TEST(JoinFails, WithAnotherVersionNamingBoth) {
  const auto hub = make_hub();
  std::vector<Introduction> ranks = {introduction(0, 3), introduction(1, 3)};
  ranks[1].version = 70203;
  for (const ControlResult& result : join_all(hub->meeting_point(), ranks)) {
    EXPECT_EQ(result.status().code(), tuttiInvalidUsage);
    EXPECT_THAT(text(result), AllOf(HasSubstr("rank 1 (host host1, pid 1001) runs Tutti 7.2.3"), HasSubstr("0.1.0")));
  }
}

TEST(JoinFails, WithARankOutOfRangeBeforeAnythingIsSent) {
  const MeetingPoint nowhere{"127.0.0.1", 1, 1, {}};
  EXPECT_EQ(join(nowhere, introduction(4, 4)).status().code(), tuttiInvalidArgument);
  EXPECT_EQ(join(nowhere, introduction(0, 0)).status().code(), tuttiInvalidArgument);
}

TEST(JoinFails, AfterTheTimeoutNamingWhoIsMissing) {
  const auto hub = make_hub();
  const auto results = join_all(hub->meeting_point(), {introduction(0, 9), introduction(1, 9), introduction(3, 9)},
                                loopback_config(0.3));
  for (const ControlResult& result : results) {
    EXPECT_EQ(result.status().code(), tuttiTimeout);
    EXPECT_THAT(text(result), AllOf(HasSubstr("9 ranks"), HasSubstr("ranks 2, 4-8 did not")));
  }
  // Who comes later is told the same.
  EXPECT_THAT(text(join(hub->meeting_point(), introduction(2, 9))), HasSubstr("ranks 2, 4-8 did not"));
}

TEST(JoinFails, WhenNobodyListens) {
  const uint16_t port = port_of(listen_tcp(parse_address("127.0.0.1", 0).value(), {}).value().address);
  // Long enough for a first refusal on a crowded machine.
  const ControlResult result = join({"127.0.0.1", port, 1, {}}, introduction(0, 1), loopback_config(2));
  EXPECT_EQ(result.status().code(), tuttiTimeout);
  EXPECT_THAT(text(result), AllOf(HasSubstr(std::to_string(port)), HasSubstr("ECONNREFUSED")));
  const ControlResult unknown = join({"no-such-host.invalid", 1, 1, {}}, introduction(0, 1), loopback_config(0.2));
  EXPECT_THAT(text(unknown), HasSubstr("cannot find the host 'no-such-host.invalid'"));
}

TEST(JoinFails, LongBeforeTheTimeoutWhenTheHostsNameDoesNotExist) {
  // A name with an empty label exists nowhere; no name server is asked.
  MeetingPoint point{"no..such", 29500, 16, make_secret()};
  point.host_from = "MASTER_ADDR";
  const ControlResult result = join(point, introduction(1, 2), loopback_config(kPatientSeconds));
  EXPECT_EQ(result.status().code(), tuttiInvalidUsage);
  EXPECT_THAT(text(result), HasSubstr("cannot find the host 'no..such' of MASTER_ADDR"));
}

TEST(JoinFails, LongBeforeTheTimeoutWithTheWrongKeyOnALaunchersPorts) {
  const MeetingPoint right = launchers_point();
  MeetingPoint wrong = right;
  wrong.key[31] ^= std::byte{1};
  const auto hub = Hub::create(loopback_config(), &right);
  ASSERT_TRUE(hub.ok()) << text(hub.status());
  const ControlResult result = join(wrong, introduction(1, 2), loopback_config(kPatientSeconds));
  EXPECT_EQ(result.status().code(), tuttiInvalidArgument);
  EXPECT_THAT(text(result), AllOf(HasSubstr("does not accept this rank's key"), HasSubstr("TUTTI_SECRET_FILE"),
                                  HasSubstr("another MASTER_PORT")));
}

TEST(JoinFails, NotYetWhenAnotherJobsHubWasThereFirst) {
  const MeetingPoint point = launchers_point();
  MeetingPoint another = point;
  another.key[31] ^= std::byte{1};
  const auto others = Hub::create(loopback_config(), &another);
  ASSERT_TRUE(others.ok()) << text(others.status());
  std::optional<ControlResult> early;
  std::jthread rank_1([&] { early.emplace(join(point, introduction(1, 2))); });
  const auto ours = Hub::create(loopback_config(), &point);
  ASSERT_TRUE(ours.ok()) << text(ours.status());
  const ControlResult rank_0 = join(point, introduction(0, 2));
  rank_1.join();
  EXPECT_TRUE(rank_0.ok()) << text(rank_0);
  EXPECT_TRUE(early->ok()) << text(*early);
}

TEST(JoinFails, WhenAborted) {
  const auto hub = make_hub();
  std::atomic<bool> abort = false;
  std::optional<ControlResult> result;
  std::jthread waiting(
      [&] { result.emplace(Control::join(hub->meeting_point(), introduction(0, 2), loopback_config(), abort)); });
  abort.store(true);
  waiting.join();
  EXPECT_FALSE(result->ok());
  EXPECT_THAT(text(*result), HasSubstr("aborted"));
}

TEST(JoinFails, WhenTheHubLeaves) {
  auto hub = make_hub();
  const Introduction self = introduction(0, 2);
  const Nanoseconds deadline = steady_now() + 20 * kSecond;
  Result<Acquaintance> met = dial(hub->meeting_point(), self, deadline, never_aborted());
  ASSERT_TRUE(met.ok()) << text(met.status());
  hub.reset();
  ControlChannel control(std::move(met).value(), self, loopback_config(), never_aborted());
  const Status status = control.wait_for_group(deadline);
  EXPECT_EQ(status.code(), tuttiRemoteError);
  EXPECT_THAT(text(status), AllOf(HasSubstr("holds the meeting point"), HasSubstr("left while this rank waited")));
}

TEST(HubFails, WhenThePortRangeIsTaken) {
  const Listener taken = listen_tcp(parse_address("127.0.0.1", 0).value(), {}).value();
  Config config = loopback_config();
  config.port_range = {port_of(taken.address), port_of(taken.address)};
  const Result<std::unique_ptr<Hub>> hub = Hub::create(config);
  EXPECT_EQ(hub.status().code(), tuttiSystemError);
  EXPECT_THAT(text(hub.status()),
              AllOf(HasSubstr(std::to_string(config.port_range.first)), HasSubstr("TUTTI_PORT_RANGE")));
}

TEST(HubFails, WhenTheInterfaceDoesNotExist) {
  Config config = loopback_config();
  config.socket_ifname = {false, true, {"nosuch0"}};
  const Result<std::unique_ptr<Hub>> hub = Hub::create(config);
  EXPECT_EQ(hub.status().code(), tuttiInvalidUsage);
  EXPECT_THAT(text(hub.status()), AllOf(HasSubstr("nosuch0"), HasSubstr("lo (127.0.0.1)")));
}

TEST(HubFails, WhenItMayNotOpenAConnectionToEveryRank) {
  const auto hub = make_hub();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit small{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  const ControlResult result = join(hub->meeting_point(), introduction(0, 200));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(result.status().code(), tuttiSystemError);
  EXPECT_THAT(text(result), AllOf(HasSubstr("64 files (RLIMIT_NOFILE)"), HasSubstr("ulimit -n")));
}

TEST(Failures, AReportGoesToEverybodyAndTheFirstWins) {
  const auto hub = make_hub();
  const auto group = make_group(hub->meeting_point(), 3);
  group[1]->report_failure(Status(tuttiSystemError, "the disk is on fire"));
  group[1]->report_failure(Status(tuttiSystemError, "and the roof too"));
  EXPECT_EQ(failure_of(*group[0]).code(), tuttiRemoteError);
  group[2]->report_failure(Status(tuttiInternalError, "me too"));
  for (const auto& control : group) {
    const ControlNews news = control.get() == group[0].get()
                                 ? ControlNews{}
                                 : news_until(*control, [](const ControlNews& n) { return n.failure.has_value(); });
    if (news.failure) {
      EXPECT_EQ(text(*news.failure), "rank 1 (host host1, pid 1001): the disk is on fire");
    }
  }
  const Result<Blobs> after = group[0]->exchange({});
  EXPECT_EQ(text(after.status()), "rank 1 (host host1, pid 1001): the disk is on fire");
}

TEST(Failures, WrongUseKeepsItsCode) {
  const auto hub = make_hub();
  const auto group = make_group(hub->meeting_point(), 2);
  group[0]->report_failure(Status(tuttiInvalidUsage, "counts differ"));
  EXPECT_EQ(failure_of(*group[1]).code(), tuttiInvalidUsage);
}

TEST(Failures, MayBeReportedFromAnyThread) {
  const auto hub = make_hub();
  const auto group = make_group(hub->meeting_point(), 2);
  std::jthread other([&] { group[0]->report_failure(Status(tuttiSystemError, "from another thread")); });
  EXPECT_THAT(text(failure_of(*group[0])), HasSubstr("from another thread"));
  EXPECT_THAT(text(failure_of(*group[1])), HasSubstr("from another thread"));
}

TEST(Failures, AKilledProcessIsNamedToTheOthers) {
  int ready[2], ids[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(ids), 0);
  // Before the hub has a thread: the child would get a copy of a lock that it holds just then (the allocator's, under
  // AddressSanitizer, which has hung this test).
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    tuttiUniqueId id;
    if (::read(ids[0], &id, sizeof id) != static_cast<ssize_t>(sizeof id)) ::_exit(1);
    Introduction child_self = introduction(2, 3);
    child_self.pid = ::getpid();
    const ControlResult result = join(decode_unique_id(id).value(), child_self);
    (void)!::write(ready[1], result.ok() ? "y" : "n", 1);
    for (;;) ::pause();
  }
  const auto hub = make_hub();
  const MeetingPoint point = hub->meeting_point();
  const tuttiUniqueId id = encode(point);
  ASSERT_EQ(::write(ids[1], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  ::close(ids[0]);
  ::close(ids[1]);
  const auto others = join_all(point, {introduction(0, 3), introduction(1, 3)});
  ::close(ready[1]);
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  ::close(ready[0]);
  EXPECT_EQ(answer, 'y');
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  for (const ControlResult& other : others) {
    ASSERT_TRUE(other.ok()) << text(other);
    const Status failure = failure_of(*other.value());
    EXPECT_EQ(failure.code(), tuttiRemoteError);
    EXPECT_THAT(text(failure),
                HasSubstr("rank 2 (host host2, pid " + std::to_string(child) + ") died or lost its connection"));
  }
}

TEST(Failures, TheDeathOfTheHubsProcessIsNoticed) {
  int id_pipe[2];
  ASSERT_EQ(::pipe(id_pipe), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto hub = make_hub();
    const tuttiUniqueId id = encode(hub->meeting_point());
    (void)!::write(id_pipe[1], &id, sizeof id);
    Introduction self = introduction(0, 2);
    self.host = host_name();
    self.pid = ::getpid();
    const ControlResult control = join(hub->meeting_point(), self);
    for (;;) ::pause();
  }
  ::close(id_pipe[1]);
  tuttiUniqueId id;
  ASSERT_EQ(::read(id_pipe[0], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  ::close(id_pipe[0]);
  const ControlResult control = join(decode_unique_id(id).value(), introduction(1, 2));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(control.ok()) << text(control);
  const Status failure = failure_of(*control.value());
  EXPECT_EQ(failure.code(), tuttiRemoteError);
  EXPECT_THAT(text(failure), AllOf(HasSubstr("rank 0 (host " + host_name() + ", pid " + std::to_string(child) + ")"),
                                   HasSubstr("holds the meeting point"), HasSubstr("died or lost its connection")));
}

TEST(Failures, ADeathBeforeTheGroupIsCompleteIsTold) {
  const auto hub = make_hub();
  {
    const auto met = dial(hub->meeting_point(), introduction(0, 3), steady_now() + 20 * kSecond, never_aborted());
    ASSERT_TRUE(met.ok()) << text(met.status());
  }
  const ControlResult other = join(hub->meeting_point(), introduction(1, 3));
  EXPECT_EQ(other.status().code(), tuttiRemoteError);
  EXPECT_THAT(text(other), HasSubstr("rank 0 (host host0, pid 1000) died or lost its connection"));
}

TEST(Exchange, ThatARankStaysAwayFromTimesOutNamingIt) {
  const auto hub = make_hub();
  const auto group = make_group(hub->meeting_point(), 3, loopback_config(0.5));
  std::vector<std::jthread> threads;
  for (int r : {0, 2})
    threads.emplace_back([&group, r] {
      const Result<Blobs> result = group[static_cast<size_t>(r)]->exchange({});
      EXPECT_EQ(result.status().code(), tuttiTimeout);
      EXPECT_THAT(text(result.status()), HasSubstr("s for rank 1 in an exchange"));
    });
}

TEST(Exchange, WithARankThatHasLeftFails) {
  const auto hub = make_hub();
  const auto group = make_group(hub->meeting_point(), 2);
  group[1]->leave({});
  const Result<Blobs> result = group[0]->exchange({});
  EXPECT_EQ(result.status().code(), tuttiRemoteError);
  EXPECT_THAT(text(result.status()), HasSubstr("rank 1 (host host1, pid 1001) left"));
}

TEST(Exchange, OfTooMuchIsRefused) {
  const auto hub = make_hub();
  const auto group = make_group(hub->meeting_point(), 1);
  EXPECT_EQ(group[0]->exchange(std::vector<std::byte>(wire::kMaxBlobBytes + 1)).status().code(), tuttiInvalidArgument);
  EXPECT_TRUE(group[0]->exchange(std::vector<std::byte>(wire::kMaxBlobBytes)).ok());
}

}  // namespace
}  // namespace tutti::test
