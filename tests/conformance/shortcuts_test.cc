// Messages of the shm transport that are lent, and written where the receiver wants them, in shareable memory.
#include <gmock/gmock.h>

#include "base/shareable.h"
#include "ends.h"
#include "ranks.h"
#include "world.h"

namespace tutti::conformance {
namespace {

constexpr size_t kBytes = 4096;
constexpr size_t kRegionBytes = 64 * kBytes;

const Provider& shm_provider() {
  return *std::ranges::find(providers(), "shm", &Provider::name);
}

struct FreeShareable {
  void operator()(std::byte* memory) const { EXPECT_TRUE(free_shareable(memory).ok()); }
};
using Region = std::unique_ptr<std::byte, FreeShareable>;
Region make_region() { return Region(allocate_shareable(kRegionBytes).value()); }

// Fills `place` as payload(seed) and returns that.
Bytes fill(std::byte* place, uint64_t seed) {
  const Bytes bytes = payload(seed, kBytes);
  std::ranges::copy(bytes, place);
  return bytes;
}

class Shortcuts : public testing::Test {
 protected:
  Arrival receive() {
    Arrival arrival = receive_link->receive({}, kBytes, stamp()).value();
    EXPECT_EQ(arrival.state, Arrival::State::arrived);
    return arrival;
  }
  void send_copy(uint64_t seed) {
    const Room room = send_link->claim(kBytes).value();
    ASSERT_TRUE(room);
    fill(room.data, seed);
    send_link->post(kBytes, stamp());
  }
  // The message that makes the peer map the region.
  void introduce(const Region& region) {
    EXPECT_FALSE(send_link->lend(region.get(), kBytes, stamp()).value());
    send_copy(0);
    (void)receive();
    receive_link->release();
  }

  std::unique_ptr<World> world = shm_provider().make_world(2, small_config());
  std::unique_ptr<SendLink> send_link = world->send_link(0, 1);
  std::unique_ptr<RecvLink> receive_link = world->recv_link(1, 0);
};

TEST_F(Shortcuts, WhatIsLentIsReadWhereItLies) {
  const Region region = make_region();
  introduce(region);
  std::byte* const place = region.get() + 3 * kBytes;
  fill(place, 1);
  ASSERT_TRUE(send_link->lend(place, kBytes, stamp()).value());
  EXPECT_EQ(send_link->retired(), 1u);
  EXPECT_EQ(receive().data, place);
  EXPECT_EQ(send_link->retired(), 1u);
  receive_link->release();
  EXPECT_EQ(send_link->retired(), 2u);
}

// Who has its lent memory back, and asks no more, is woken by later releases of the link once at most.
TEST_F(Shortcuts, WhatNobodyAsksForAnyMoreKeepsNobodyAwake) {
  const Region region = make_region();
  introduce(region);
  ASSERT_TRUE(send_link->lend(region.get(), kBytes, stamp()).value());
  send_copy(1);
  (void)receive();
  receive_link->release();
  EXPECT_EQ(send_link->retired(), 2u);  // the lent one is; a message is still under way
  (void)receive();
  receive_link->release();
  const auto falls_asleep = [&] {
    std::vector<pollfd> descriptors;
    const bool asleep = (*world)[0].prepare_wait(descriptors);
    (*world)[0].finish_wait();
    return asleep;
  };
  EXPECT_FALSE(falls_asleep());
  EXPECT_TRUE(falls_asleep());
}

TEST_F(Shortcuts, OtherMemoryIsNotLent) {
  const Region region = make_region();
  introduce(region);
  const Bytes elsewhere(kBytes);
  EXPECT_FALSE(send_link->lend(elsewhere.data(), kBytes, stamp()).value());
  EXPECT_FALSE(send_link->lend(region.get() + kRegionBytes - kBytes + 1, kBytes, stamp()).value());
  EXPECT_TRUE(send_link->lend(region.get() + kRegionBytes - kBytes, kBytes, stamp()).value());
}

TEST_F(Shortcuts, LendsNoMoreThanThereIsCreditFor) {
  const Region region = make_region();
  introduce(region);
  uint32_t lent = 0;
  while (lent < 100 && send_link->lend(region.get(), kBytes, stamp()).value()) ++lent;
  EXPECT_GE(lent, 2u);
  EXPECT_LT(lent, 100u);
  (void)receive();
  receive_link->release();
  EXPECT_TRUE(send_link->lend(region.get(), kBytes, stamp()).value());
}

TEST_F(Shortcuts, AGrantedMessageIsWrittenWhereItIsWanted) {
  const Region region = make_region();
  ASSERT_TRUE(receive_link->grant(nullptr, kBytes));
  ASSERT_TRUE(receive_link->grant(region.get() + 5, kBytes));
  send_copy(1);
  const Room room = send_link->claim(kBytes).value();
  EXPECT_TRUE(room.granted);
  EXPECT_EQ(room.data, region.get() + 5);
  fill(room.data, 2);
  send_link->post(kBytes, stamp());
  EXPECT_NE(receive().data, region.get() + 5);
  receive_link->release();
  EXPECT_EQ(receive().data, region.get() + 5);
  receive_link->release();
}

TEST_F(Shortcuts, AGrantOfAnotherSizeIsLeftAlone) {
  const Region region = make_region();
  ASSERT_TRUE(receive_link->grant(region.get(), 2 * kBytes));
  EXPECT_FALSE(send_link->claim(kBytes).value().granted);
}

TEST_F(Shortcuts, GrantsReachAsFarAheadAsCredits) {
  const Region region = make_region();
  uint32_t granted = 0;
  while (granted < 100 && receive_link->grant(region.get() + granted * kBytes, kBytes)) ++granted;
  ASSERT_LT(granted, 64u);
  for (uint32_t i = 0; i < granted; ++i) {
    EXPECT_EQ(send_link->claim(kBytes).value().data, region.get() + i * kBytes);
    send_link->post(kBytes, stamp());
  }
  EXPECT_FALSE(send_link->claim(kBytes).value());
  // One more when one has arrived, before its credit goes back.
  (void)receive();
  EXPECT_TRUE(receive_link->grant(region.get() + granted * kBytes, kBytes));
  EXPECT_FALSE(receive_link->grant(region.get(), kBytes));
  receive_link->release();
  EXPECT_EQ(send_link->claim(kBytes).value().data, region.get() + granted * kBytes);
}

TEST_F(Shortcuts, AFreedRegionStaysReadableForWhoStillReads) {
  Region region = make_region();
  introduce(region);
  const Bytes sent = fill(region.get(), 7);
  ASSERT_TRUE(send_link->lend(region.get(), kBytes, stamp()).value());
  const Arrival arrival = receive();
  region.reset();
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), arrival.data));
  receive_link->release();
}

// Each rank lends from memory of its own and wants what it gets in memory of its own; both are reused again and again,
// and the regions freed and made anew now and then.
bool exchange_by_shortcuts(uint32_t self, Transport& transport) {
  auto send = transport.open_send(Rank{1 - self}, ChannelId{0}).value();
  auto recv = transport.open_recv(Rank{1 - self}, ChannelId{0}).value();
  uint32_t lent = 0, placed = 0;
  for (uint32_t era = 0; era < 5; ++era) {
    const Region out = make_region(), in = make_region();
    for (uint32_t i = 0; i < 64; ++i) {
      const uint32_t number = era * 64 + i;
      std::byte* const source = out.get() + i % 2 * kBytes;
      std::byte* const wanted = in.get() + i * kBytes;
      if (i == 0) (void)recv->grant(wanted, kBytes);  // the peer may have claimed room before
      fill(source, 1000 * self + number);
      const bool is_lent = i % 2 == 0 && send->lend(source, kBytes, stamp(number)).value();
      lent += is_lent;
      while (!is_lent) {
        const Room room = send->claim(kBytes).value();
        if (!room) continue;
        std::memcpy(room.data, source, kBytes);
        send->post(kBytes, stamp(number));
        break;
      }
      Arrival arrival;
      while ((arrival = recv->receive({}, kBytes, stamp(number)).value()).state == Arrival::State::pending) {
      }
      const Bytes expected = payload(1000 * (1 - self) + number, kBytes);
      if (arrival.state != Arrival::State::arrived || !std::equal(expected.begin(), expected.end(), arrival.data))
        return false;
      placed += arrival.data == wanted;
      // Before the release, which the peer waits for: it cannot miss that.
      if (i + 1 < 64 && !recv->grant(wanted + kBytes, kBytes)) return false;
      recv->release();
      while (send->retired() <= number) {
      }
    }
  }
  // All of even number are lent but the first of an era, all of odd number are placed.
  return lent == 5 * 31 && placed >= 5 * 32;
}

TEST(ShortcutsBetween, Processes) {
  Processes processes(shm_provider(), 2, small_config(), exchange_by_shortcuts);
  EXPECT_TRUE(processes.succeeded(0));
  EXPECT_TRUE(processes.succeeded(1));
}

TEST(ShortcutsBetween, Threads) {
  auto world = shm_provider().make_world(2, small_config());
  std::array<bool, 2> right{};
  run_threads(2, [&](uint32_t self) { right[self] = exchange_by_shortcuts(self, (*world)[self]); });
  EXPECT_TRUE(right[0] && right[1]);
}

}  // namespace
}  // namespace tutti::conformance
