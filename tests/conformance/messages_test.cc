// The contract of transports/transport.h on messages: order, sizes, pieces, credit, stamps, channels.
#include <gmock/gmock.h>

#include "ends.h"
#include "world.h"

namespace tutti::conformance {
namespace {

class Messages : public Conformance {
 protected:
  // Rank 0 sends, the last rank receives: two ranks where the transport can, one where it only loops back.
  void SetUp() override {
    world_ = make_world();
    ASSERT_GT(world_->size(), 0u);
    to_ = world_->size() - 1;
  }
  void open(uint16_t channel = 0) {
    sender_.emplace(world_->send_link(0, to_, channel));
    receiver_.emplace(world_->recv_link(to_, 0, channel));
  }
  void TearDown() override {
    sender_.reset();
    receiver_.reset();
  }

  void send(const Bytes& message, const Stamp& with, const std::vector<size_t>& cuts = {}) {
    ASSERT_TRUE(world_->until([&] {
      auto sent = sender_->try_send(message, with, cuts);
      EXPECT_TRUE(sent.ok()) << sent.status().c_str();
      return !sent.ok() || *sent;
    }));
  }
  Bytes receive(size_t bytes, const Stamp& with, const std::vector<size_t>& cuts = {}) {
    return receive_from(*receiver_, bytes, with, cuts);
  }
  Bytes receive_from(Receiver& receiver, size_t bytes, const Stamp& with, const std::vector<size_t>& cuts = {}) {
    Bytes message;
    const bool came = world_->until([&] {
      auto got = receiver.try_receive(bytes, with, cuts);
      EXPECT_TRUE(got.ok()) << got.status().c_str();
      if (!got.ok()) return true;
      if (*got) message = **got;
      return got->has_value();
    });
    EXPECT_TRUE(came) << "nothing came";
    EXPECT_TRUE(receiver.guards_intact()) << "memory beyond the message was written";
    EXPECT_NE(receiver.last().state, Arrival::State::mismatch);
    return message;
  }

  std::unique_ptr<World> world_;
  uint32_t to_ = 0;
  std::optional<Sender> sender_;
  std::optional<Receiver> receiver_;
};

TEST_P(Messages, KeepTheirOrder) {
  open();
  uint32_t sent = 0, received = 0;
  ASSERT_TRUE(world_->until([&] {
    if (sent < 1000) {
      auto taken = sender_->try_send(payload(sent, 8 + sent % 100), stamp(sent));
      EXPECT_TRUE(taken.ok()) << taken.status().c_str();
      if (taken.ok() && *taken) ++sent;
    }
    auto got = receiver_->try_receive(8 + received % 100, stamp(received));
    EXPECT_TRUE(got.ok()) << got.status().c_str();
    if (got.ok() && *got) {
      EXPECT_EQ(**got, payload(received, 8 + received % 100)) << received;
      ++received;
    }
    return received == 1000 || HasFailure();
  }));
}

TEST_P(Messages, OfEverySizeArriveWhole) {
  open();
  const size_t max = (*world_)[0].max_message_bytes();
  ASSERT_GE(max, 4096u);
  std::vector<size_t> sizes;
  for (size_t bytes = 0; bytes <= 300; ++bytes) sizes.push_back(bytes);
  for (size_t power = 512; power <= 8192; power *= 2) sizes.insert(sizes.end(), {power - 1, power, power + 1});
  if (max <= size_t{16} << 20) sizes.insert(sizes.end(), {max / 3, max - 1, max});
  for (size_t bytes : sizes) {
    if (bytes > max) continue;
    send(payload(bytes, bytes), stamp());
    ASSERT_EQ(receive(bytes, stamp()), payload(bytes, bytes)) << bytes << " bytes";
  }
}

TEST_P(Messages, AreGatheredAndScatteredInPieces) {
  open();
  const std::vector<std::vector<size_t>> cut_lists = {
      {}, {0}, {1}, {0, 0, 7, 7, 64}, {63, 65, 500, 500}, {4000}, {1, 2, 3, 4, 5, 6}};
  uint64_t seed = 0;
  for (const auto& cuts_out : cut_lists) {
    for (const auto& cuts_in : cut_lists) {
      const size_t bytes = 1 + seed * 83 % 4096;
      send(payload(++seed, bytes), stamp(), cuts_out);
      ASSERT_EQ(receive(bytes, stamp(), cuts_in), payload(seed, bytes)) << seed;
    }
  }
}

TEST_P(Messages, AreAcceptedBeforeTheReceiverDoesAnything) {
  sender_.emplace(world_->send_link(0, to_));
  const size_t bytes = std::min<size_t>((*world_)[0].max_message_bytes(), size_t{4} << 20);
  send(payload(1, bytes), stamp());
  for (int i = 0; i < 20; ++i) world_->drive();
  receiver_.emplace(world_->recv_link(to_, 0));
  EXPECT_EQ(receive(bytes, stamp()), payload(1, bytes));
}

TEST_P(Messages, ArriveWhenTheReceiverWasThereFirst) {
  receiver_.emplace(world_->recv_link(to_, 0));
  for (int i = 0; i < 20; ++i) {
    auto got = receiver_->try_receive(100, stamp());
    ASSERT_TRUE(got.ok()) << got.status().c_str();
    ASSERT_FALSE(got->has_value());
    world_->drive();
  }
  sender_.emplace(world_->send_link(0, to_));
  send(payload(1, 100), stamp());
  EXPECT_EQ(receive(100, stamp()), payload(1, 100));
}

TEST_P(Messages, StopAtTheEndOfCreditAndGoOnAfterIt) {
  open();
  for (int round = 0; round < 3; ++round) {
    // Until the link has refused often enough that no more time will help: a simulated network needs time to pass.
    uint32_t sent = 0, refusals = 0;
    while (refusals < 300) {
      auto taken = sender_->try_send(payload(sent, 4000), stamp(sent));
      ASSERT_TRUE(taken.ok()) << taken.status().c_str();
      sent += *taken;
      refusals = *taken ? 0 : refusals + 1;
      ASSERT_LT(sent, 100'000u) << "the link never refuses a message";
      world_->drive();
    }
    // What an engine lives on that folds from slot to slot (transport.h).
    ASSERT_GE(sent, sender_->link().mapped() ? 2u : 1u);
    for (uint32_t i = 0; i < sent; ++i) ASSERT_EQ(receive(4000, stamp(i)), payload(i, 4000)) << i;
  }
}

TEST_P(Messages, TravelOnManyChannelsIndependently) {
  std::vector<Sender> senders;
  std::vector<Receiver> receivers;
  for (uint16_t channel = 0; channel < Transport::kMaxChannels; ++channel) {
    senders.emplace_back(world_->send_link(0, to_, channel));
    receivers.emplace_back(world_->recv_link(to_, 0, channel));
  }
  for (uint32_t c = 0; c < senders.size(); ++c) {
    ASSERT_TRUE(world_->until([&] {
      auto sent = senders[c].try_send(payload(c, 1000 + c), stamp(c));
      EXPECT_TRUE(sent.ok());
      return !sent.ok() || *sent;
    }));
  }
  for (uint32_t c = static_cast<uint32_t>(senders.size()); c-- > 0;)
    ASSERT_EQ(receive_from(receivers[c], 1000 + c, stamp(c)), payload(c, 1000 + c)) << "channel " << c;
}

TEST_P(Messages, CrossBetweenAllRanks) {
  auto world = make_world(5);
  const uint32_t n = world->size();
  std::vector<Sender> senders;
  std::vector<Receiver> receivers;
  for (uint32_t a = 0; a < n; ++a) {
    for (uint32_t b = 0; b < n; ++b) {
      senders.emplace_back(world->send_link(a, b));
      receivers.emplace_back(world->recv_link(b, a));
    }
  }
  constexpr uint32_t kRounds = 20;
  std::vector<uint32_t> sent(n * n), received(n * n);
  ASSERT_TRUE(world->until([&] {
    bool done = true;
    for (uint32_t i = 0; i < n * n; ++i) {
      if (sent[i] < kRounds) {
        auto taken = senders[i].try_send(payload(i * 1000 + sent[i], 200), stamp(sent[i]));
        EXPECT_TRUE(taken.ok()) << taken.status().c_str();
        if (taken.ok()) sent[i] += *taken;
      }
      if (received[i] < kRounds) {
        auto got = receivers[i].try_receive(200, stamp(received[i]));
        EXPECT_TRUE(got.ok()) << got.status().c_str();
        if (got.ok() && *got) {
          EXPECT_EQ(**got, payload(i * 1000 + received[i]++, 200));
        }
      }
      done &= received[i] == kRounds;
    }
    return done || HasFailure();
  }));
  EXPECT_TRUE(world->failure().ok()) << world->failure().c_str();
}

TEST_P(Messages, WithAnotherStampAreAMismatchThatStays) {
  open();
  send(payload(1, 100), stamp(7, 0x1234));
  Bytes room(100, std::byte{0x11});
  const MutablePiece piece{room.data(), room.size()};
  Arrival arrival;
  const auto ask = [&] {
    auto result = receiver_->link().receive({&piece, 1}, 100, stamp(8, 0x1234));
    EXPECT_TRUE(result.ok()) << result.status().c_str();
    if (result.ok()) arrival = *result;
    return arrival.state != Arrival::State::pending;
  };
  ASSERT_TRUE(world_->until(ask));
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(arrival.state, Arrival::State::mismatch);
    EXPECT_EQ(arrival.stamp, stamp(7, 0x1234));
    EXPECT_EQ(arrival.bytes, 100u);
    ASSERT_TRUE(world_->until(ask));
  }
  EXPECT_THAT(room, testing::Each(std::byte{0x11})) << "data of another operation was stored";
}

TEST_P(Messages, OfAnotherSizeAreAMismatch) {
  open();
  send(payload(1, 60), stamp());
  ASSERT_TRUE(world_->until([&] {
    auto got = receiver_->try_receive(100, stamp());
    EXPECT_TRUE(got.ok()) << got.status().c_str();
    return !got.ok() || got->has_value();
  }));
  EXPECT_EQ(receiver_->last().state, Arrival::State::mismatch);
  EXPECT_EQ(receiver_->last().bytes, 60u);
}

TEST_P(Messages, LinksOpenOncePerEnd) {
  open(3);
  EXPECT_FALSE((*world_)[0].open_send(Rank{to_}, ChannelId{3}).ok());
  EXPECT_FALSE((*world_)[to_].open_recv(Rank{0}, ChannelId{3}).ok());
  EXPECT_FALSE((*world_)[0].open_send(Rank{to_}, ChannelId{Transport::kMaxChannels}).ok());
}

TEST_P(Messages, ToOneself) {
  Sender sender(world_->send_link(0, 0, 9));
  Receiver receiver(world_->recv_link(0, 0, 9));
  for (uint32_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(world_->until([&] {
      auto sent = sender.try_send(payload(i, 300), stamp(i));
      return !sent.ok() || *sent;
    }));
    ASSERT_EQ(receive_from(receiver, 300, stamp(i)), payload(i, 300));
  }
}

TEST_P(Messages, ClaimedRoomStaysUntilPosted) {
  open();
  TUTTI_SKIP_UNLESS(sender_->link().mapped(), "a put link has no claim()");
  for (size_t bytes : {size_t{0}, size_t{8}, size_t{40}, size_t{41}, size_t{64}, size_t{4096}}) {
    std::byte* first = nullptr;
    ASSERT_TRUE(world_->until([&] {
      auto room = sender_->link().claim(bytes);
      EXPECT_TRUE(room.ok());
      first = room.ok() ? room->data : nullptr;
      return first != nullptr;
    }));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u) << bytes;
    ASSERT_TRUE(world_->until([&] {
      auto again = sender_->link().claim(bytes);
      EXPECT_TRUE(again.ok());
      return !again.ok() || again->data == first;
    }));
    const Bytes message = payload(bytes, bytes);
    std::copy(message.begin(), message.end(), first);
    sender_->link().post(bytes, stamp());
    EXPECT_EQ(receive(bytes, stamp()), message);
  }
}

TEST_P(Messages, PutMemoryIsFreeOnceRetired) {
  open();
  TUTTI_SKIP_UNLESS(!sender_->link().mapped(), "a mapped link has no put()");
  // Sender scribbles over whatever is retired; the receiver must not see that.
  const size_t bytes = std::min<size_t>((*world_)[0].max_message_bytes(), 100'000);
  uint32_t received = 0;
  ASSERT_TRUE(world_->until([&] {
    if (sender_->sent() < 200) {
      auto taken = sender_->try_send(payload(sender_->sent(), bytes), stamp());
      EXPECT_TRUE(taken.ok()) << taken.status().c_str();
    }
    auto got = receiver_->try_receive(bytes, stamp());
    EXPECT_TRUE(got.ok()) << got.status().c_str();
    if (got.ok() && *got) {
      EXPECT_EQ(**got, payload(received++, bytes));
    }
    return received == 200 || HasFailure();
  }));
  EXPECT_TRUE(world_->until([&] { return sender_->link().retired() == 200; }));
}

TEST_P(Messages, PutMemoryIsFreeOnceDetached) {
  open();
  TUTTI_SKIP_UNLESS(!sender_->link().mapped(), "a mapped link has no put()");
  const size_t bytes = std::min<size_t>((*world_)[0].max_message_bytes(), 100'000);
  uint32_t received = 0;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 3; ++i) {
      auto taken = sender_->try_send(payload(sender_->sent(), bytes), stamp());
      ASSERT_TRUE(taken.ok()) << taken.status().c_str();
    }
    sender_->detach();
    EXPECT_EQ(sender_->link().retired(), sender_->sent());
    while (received < sender_->sent()) {
      ASSERT_EQ(receive(bytes, stamp()), payload(received, bytes));
      ++received;
    }
  }
}

TEST_P(Messages, AreDrainedOnceTheyHaveLeft) {
  open();
  EXPECT_TRUE((*world_)[0].drained());
  const size_t bytes = std::min<size_t>((*world_)[0].max_message_bytes(), 100'000);
  send(payload(5, bytes), stamp());
  sender_->detach();
  EXPECT_EQ(receive(bytes, stamp()), payload(5, bytes));
  EXPECT_TRUE(world_->until([&] { return (*world_)[0].drained(); }));
}

INSTANTIATE_TEST_SUITE_P(All, Messages, testing::ValuesIn(providers()), [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace tutti::conformance
