// Ranks that meet, exchange and leave as they should.
#include "group_fixture.h"

namespace tutti::test {
namespace {

using ::testing::HasSubstr;

class Meeting : public ::testing::TestWithParam<uint32_t> {};

TEST_P(Meeting, AllJoinExchangeAndLeave) {
  const uint32_t n = GetParam();
  const std::unique_ptr<Hub> hub = make_hub();
  const auto controls = make_group(hub->meeting_point(), n);
  ASSERT_FALSE(HasFailure());
  EXPECT_FALSE(hub->finished());
  std::vector<Result<Blobs>> first(n, Blobs()), second(n, Blobs());
  {
    std::vector<std::jthread> threads;
    for (uint32_t r = 0; r < n; ++r)
      threads.emplace_back([&, r] {
        first[r] = controls[r]->exchange(blob("first of " + std::to_string(r)));
        second[r] = controls[r]->exchange(std::vector<std::byte>(r * 100, std::byte{1}));
      });
  }
  for (uint32_t r = 0; r < n; ++r) {
    ASSERT_TRUE(first[r].ok()) << first[r].status().message();
    ASSERT_TRUE(second[r].ok()) << second[r].status().message();
    ASSERT_EQ(first[r].value().size(), n);
    ASSERT_EQ(controls[r]->members().size(), n);
    for (uint32_t q = 0; q < n; ++q) {
      EXPECT_EQ(first[r].value()[q], blob("first of " + std::to_string(q)));
      EXPECT_EQ(second[r].value()[q].size(), q * 100);
      EXPECT_EQ(controls[r]->members()[q].rank, q);
      EXPECT_EQ(controls[r]->members()[q].host, "host" + std::to_string(q));
      EXPECT_EQ(controls[r]->members()[q].pid, 1000 + static_cast<int>(q));
    }
  }
  for (const auto& control : controls) control->leave({});
  const Nanoseconds until = steady_now() + 20 * kSecond;
  while (!hub->finished() && steady_now() < until) std::this_thread::yield();
  EXPECT_TRUE(hub->finished());
}
INSTANTIATE_TEST_SUITE_P(Sizes, Meeting, ::testing::Values(1, 2, 8, 64), ::testing::PrintToStringParamName());

TEST(Rendezvous, WorksOverIpv6) {
  Config config = loopback_config();
  config.socket_family = AddressFamily::ipv6;
  Result<std::unique_ptr<Hub>> hub = Hub::create(config);
  if (!hub.ok()) GTEST_SKIP() << "no IPv6 on loopback here: " << hub.status().message();
  EXPECT_EQ(hub.value()->meeting_point().host, "::1");
  make_group(hub.value()->meeting_point(), 3, config);
}

TEST(Rendezvous, ANameServesAsHost) {
  MeetingPoint point{"localhost", 0, 1, make_secret()};
  // Any port will do; this one was free a moment ago.
  point.port = port_of(listen_tcp(parse_address("127.0.0.1", 0).value(), {}).value().address);
  point.port_count = 16;
  const Result<std::unique_ptr<Hub>> hub = Hub::create(loopback_config(), &point);
  ASSERT_TRUE(hub.ok()) << hub.status().message();
  make_group(point, 2);
}

TEST(Rendezvous, RanksFindTheHubAmongPortsThatOthersHold) {
  // A listener that never speaks holds the first port; the hub takes the next free one and ranks try in turn.
  const Listener mute = listen_tcp(parse_address("127.0.0.1", 0).value(), {}).value();
  const MeetingPoint point{"127.0.0.1", port_of(mute.address), 16, make_secret()};
  const Result<std::unique_ptr<Hub>> hub = Hub::create(loopback_config(), &point);
  ASSERT_TRUE(hub.ok()) << hub.status().message();
  EXPECT_NE(hub.value()->meeting_point().port, point.port);
  make_group(point, 3);
}

TEST(Rendezvous, TwoGroupsOneAfterTheOtherShareALaunchersPorts) {
  const uint16_t port = port_of(listen_tcp(parse_address("127.0.0.1", 0).value(), {}).value().address);
  const MeetingPoint point{"127.0.0.1", port, 16, make_secret()};
  const auto first_hub = Hub::create(loopback_config(), &point);
  ASSERT_TRUE(first_hub.ok()) << first_hub.status().message();
  const auto first = make_group(point, 2);
  // The first hub is still there, so a rank that comes to it is sent on to the second.
  const auto second_hub = Hub::create(loopback_config(), &point);
  ASSERT_TRUE(second_hub.ok()) << second_hub.status().message();
  const auto second = make_group(point, 2);
  ASSERT_FALSE(HasFailure());
  EXPECT_FALSE(first[0]->poll().failure.has_value());
}

TEST(Rendezvous, ARankMayComeBeforeTheHub) {
  const uint16_t port = port_of(listen_tcp(parse_address("127.0.0.1", 0).value(), {}).value().address);
  const MeetingPoint point{"127.0.0.1", port, 4, make_secret()};
  std::optional<ControlResult> late;
  std::jthread early([&] { late.emplace(join(point, introduction(1, 2))); });
  const auto hub = Hub::create(loopback_config(), &point);
  ASSERT_TRUE(hub.ok()) << hub.status().message();
  const ControlResult other = join(point, introduction(0, 2));
  early.join();
  EXPECT_TRUE(other.ok()) << other.status().message();
  EXPECT_TRUE(late->ok()) << late->status().message();
}

TEST(Rendezvous, DeparturesAreToldToTheOthersAndAreNoFailure) {
  const auto hub = make_hub();
  auto controls = make_group(hub->meeting_point(), 3);
  controls[1]->leave({});
  controls[1].reset();
  controls[2]->leave({});
  controls[2].reset();
  const ControlNews news = news_until(*controls[0], [](const ControlNews& n) { return n.departed.size() == 2; });
  EXPECT_THAT(news.departed, ::testing::UnorderedElementsAre(Rank{1}, Rank{2}));
  EXPECT_FALSE(news.failure.has_value());
  EXPECT_FALSE(hub->finished());
}

TEST(Rendezvous, AHubThatLeavesOnPurposeIsNoFailure) {
  auto hub = make_hub();
  auto controls = make_group(hub->meeting_point(), 2);
  hub.reset();
  for (const auto& control : controls) {
    const ControlNews news = news_until(*control, [&](const ControlNews&) { return control->descriptor() < 0; });
    EXPECT_EQ(control->descriptor(), -1);
    EXPECT_FALSE(news.failure.has_value()) << news.failure->message();
    // The connection is gone; what still wants to use it must not mind, except where an answer is needed.
    control->report_wait({"three", {}, {{1, 2, "three"}}});
    control->report_failure(Status(tuttiInternalError, "late"));
  }
  const Result<Blobs> blobs = controls[0]->exchange({});
  EXPECT_EQ(blobs.status().code(), tuttiRemoteError);
  EXPECT_THAT(std::string(blobs.status().message()), HasSubstr("left while"));
}

TEST(UniqueId, ReadsBackWhatWasWritten) {
  const MeetingPoint point{"fe80::1234:5678:9abc:def0%enp0s31f6", 54321, 7, make_secret()};
  const Result<MeetingPoint> read = decode_unique_id(encode(point));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().host, point.host);
  EXPECT_EQ(read.value().port, point.port);
  EXPECT_EQ(read.value().port_count, point.port_count);
  EXPECT_EQ(read.value().key, point.key);
}

TEST(UniqueId, RefusesEveryDamagedByte) {
  const tuttiUniqueId good = encode(MeetingPoint{"192.0.2.1", 1, 1, make_secret()});
  for (size_t i = 0; i < sizeof good.internal; ++i) {
    tuttiUniqueId bad = good;
    bad.internal[i] = static_cast<char>(bad.internal[i] ^ 0x20);
    EXPECT_EQ(decode_unique_id(bad).status().code(), tuttiInvalidArgument) << "byte " << i;
  }
  EXPECT_THAT(std::string(decode_unique_id(tuttiUniqueId{}).status().message()), HasSubstr("not a Tutti unique id"));
  EXPECT_FALSE(decode_unique_id(encode(MeetingPoint{std::string(200, 'h'), 1, 1, {}})).ok());
}

TEST(Secret, IsFreshEachTime) {
  const auto a = make_secret(), b = make_secret();
  EXPECT_NE(a, b);
  EXPECT_NE(a, decltype(a){});
}

}  // namespace
}  // namespace tutti::test
