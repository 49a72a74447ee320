// What only shared memory promises: no trace in any file system, few descriptors, little memory, reasons in words.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/rng.h"
#include "ranks.h"
#include "transports/shm/address.h"
#include "transports/shm/doorbell.h"
#include "transports/shm/process.h"
#include "transports/shm/shm.h"

namespace tutti::conformance {
namespace {

using testing::HasSubstr;

const Provider& shm_provider() {
  for (const Provider& provider : providers()) {
    if (provider.name == "shm") return provider;
  }
  std::abort();
}

// What this process's descriptors refer to.
std::vector<std::string> open_files() {
  std::vector<std::string> targets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry, gone);  // the iterator's own descriptor is among them
    if (!gone) targets.push_back(target.string());
  }
  return targets;
}

bool send_now(Sender& sender, const Bytes& message) {
  auto sent = sender.try_send(message, stamp());
  EXPECT_TRUE(sent.ok()) << sent.status().c_str();
  return sent.ok() && *sent;
}

TEST(Shm, IsInNoFileSystem) {
  auto world = shm_provider().make_world(2, small_config());
  Sender sender(world->send_link(0, 1));
  Receiver receiver(world->recv_link(1, 0));
  ASSERT_TRUE(send_now(sender, payload(1, 5000)));
  bool mapped = false;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    EXPECT_THAT(line, testing::Not(HasSubstr("/dev/shm")));
    if (line.find("tutti-inbox") == std::string::npos) continue;
    mapped = true;
    EXPECT_THAT(line, HasSubstr("(deleted)")) << "it has a name that others can find";
  }
  EXPECT_TRUE(mapped);
}

TEST(Shm, HoldsTwoDescriptorsHoweverManyLinks) {
  const size_t before = open_files().size();
  {
    auto world = shm_provider().make_world(3, small_config());
    EXPECT_EQ(open_files().size(), before + 6);
    std::vector<std::unique_ptr<SendLink>> sends;
    std::vector<std::unique_ptr<RecvLink>> recvs;
    for (uint16_t channel = 0; channel < 20; ++channel) {
      for (uint32_t from = 0; from < 3; ++from) {
        sends.push_back(world->send_link(from, (from + 1) % 3, channel));
        recvs.push_back(world->recv_link((from + 1) % 3, from, channel));
      }
    }
    EXPECT_EQ(open_files().size(), before + 6);
  }
  EXPECT_EQ(open_files().size(), before);
}

// Each rank to each, in turns; the links of 32 ranks would need a thousand descriptors if they had any.
bool exchange_with_all(uint32_t self, uint32_t nranks, Transport& transport) {
  std::vector<Sender> senders;
  std::vector<Receiver> receivers;
  for (uint32_t peer = 0; peer < nranks; ++peer) {
    auto send = transport.open_send(Rank{peer}, ChannelId{0});
    auto recv = transport.open_recv(Rank{peer}, ChannelId{0});
    if (!send.ok() || !recv.ok()) return false;
    senders.emplace_back(std::move(send).value());
    receivers.emplace_back(std::move(recv).value());
  }
  for (uint32_t peer = 0; peer < nranks; ++peer) {
    if (!send_sleeping(transport, senders[peer], payload(self, 100), stamp(), 0).ok()) return false;
  }
  for (uint32_t peer = 0; peer < nranks; ++peer) {
    auto got = receive_sleeping(transport, receivers[peer], 100, stamp(), 0);
    if (!got.ok() || *got != payload(peer, 100)) return false;
  }
  return true;
}

void limit_descriptors(rlim_t limit) {
  const rlimit both{limit, limit};
  if (::setrlimit(RLIMIT_NOFILE, &both) != 0) ::_exit(2);
}

TEST(Shm, ThirtyTwoProcessesManageWithSixtyFourDescriptors) {
  constexpr uint32_t kRanks = 32;
  Processes processes(
      shm_provider(), kRanks, small_config(),
      [](uint32_t self, Transport& transport) { return exchange_with_all(self, kRanks, transport); },
      [](uint32_t) { limit_descriptors(64); });
  for (uint32_t rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(processes.succeeded(rank)) << "rank " << rank;
}

TEST(Shm, TwentyFourThreadsManageWithSixtyFourDescriptors) {
  // Two descriptors a rank: as many as fit beside the standard ones and the test's.
  constexpr uint32_t kRanks = 24;
  Processes one_process(
      shm_provider(), 1, small_config(),
      [](uint32_t, Transport&) {
        auto ranks = make_ranks(shm_provider(), kRanks, small_config());
        if (ranks.size() != kRanks) return false;
        std::atomic<uint32_t> good{0};
        run_threads(kRanks, [&](uint32_t rank) { good += exchange_with_all(rank, kRanks, *ranks[rank]); });
        return good == kRanks;
      },
      [](uint32_t) { limit_descriptors(64); });
  EXPECT_TRUE(one_process.succeeded(0));
}

TEST(Shm, MemoryOfSixtyFourRanksStaysSmall) {
  constexpr uint32_t kRanks = 64;
  Config config = small_config();
  config.tile_bytes.reset();
  auto world = shm_provider().make_world(kRanks, config);
  const size_t bytes = (*world)[0].max_message_bytes();
  EXPECT_GE(bytes, size_t{32} << 10);
  std::vector<Sender> senders;
  for (uint32_t from = 1; from < kRanks; ++from) {
    senders.emplace_back(world->send_link(from, 0));
    uint32_t sent = 0;
    while (send_now(senders.back(), payload(from, bytes))) ++sent;
    EXPECT_GE(sent, 2u);
  }
  // All slots of all peers' links to rank 0 have been written; the other inboxes hold nothing but their header.
  size_t used_bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry, gone).string().find("tutti-inbox") == std::string::npos) continue;
    struct stat st {};
    ASSERT_EQ(::stat(entry.path().c_str(), &st), 0);
    used_bytes += static_cast<size_t>(st.st_blocks) * 512;
  }
  EXPECT_GT(used_bytes, (kRanks - 1) * 2 * bytes);
  EXPECT_LT(used_bytes, size_t{16} << 20);
}

TEST(Shm, StrangersAtTheDoorbellDoNoHarm) {
  auto world = shm_provider().make_world(2, small_config());
  shm::Address address;
  ASSERT_TRUE(shm::decode((*world)[1].address(), address));
  auto stranger = shm::Doorbell::create(shm::Token{std::byte{1}, std::byte{2}, static_cast<std::byte>(::getpid())});
  ASSERT_TRUE(stranger.ok()) << stranger.status().c_str();
  run_threads(3, [&](uint32_t rank) {
    if (rank == 2) {
      for (int i = 0; i < 20'000; ++i) stranger->ring(shm::doorbell_name(address.token));
      return;
    }
    Sender sender(world->send_link(rank, 1 - rank));
    Receiver receiver(world->recv_link(rank, 1 - rank));
    for (uint32_t i = 0; i < 500; ++i) {
      const Status sent = send_sleeping((*world)[rank], sender, payload(i, 50), stamp(i), 0);
      ASSERT_TRUE(sent.ok()) << sent.c_str();
      auto got = receive_sleeping((*world)[rank], receiver, 50, stamp(i), 0);
      ASSERT_TRUE(got.ok()) << got.status().c_str();
    }
  });
}

TEST(Shm, ARingThatCameLateIsForgottenAfterOneLook) {
  auto world = shm_provider().make_world(1, small_config());
  shm::Address address;
  ASSERT_TRUE(shm::decode((*world)[0].address(), address));
  auto stranger = shm::Doorbell::create(shm::Token{std::byte{3}, std::byte{2}, static_cast<std::byte>(::getpid())});
  ASSERT_TRUE(stranger.ok()) << stranger.status().c_str();
  stranger->ring(shm::doorbell_name(address.token));
  for (int ready : {1, 0}) {
    std::vector<pollfd> descriptors;
    ASSERT_TRUE((*world)[0].prepare_wait(descriptors));
    EXPECT_EQ(::poll(descriptors.data(), descriptors.size(), 0), ready);
    (*world)[0].finish_wait();
  }
}

// Why rank 0 cannot reach a rank 1 whose address has been changed.
std::string reason_for(const std::function<void(shm::Address&)>& change) {
  auto ranks = std::vector<std::unique_ptr<Transport>>();
  for (uint32_t r = 0; r < 2; ++r) {
    auto made = make_shm_transport(context_of(r, 2, small_config()));
    EXPECT_TRUE(made.ok()) << made.status().c_str();
    ranks.push_back(std::move(made).value());
  }
  shm::Address address;
  EXPECT_TRUE(shm::decode(ranks[1]->address(), address));
  change(address);
  EXPECT_TRUE(ranks[0]->set_peers({ranks[0]->address(), shm::encode(address)}, {describe(0), describe(1)}).ok());
  const std::string reason = ranks[0]->unreachable_reason(Rank{1});
  auto link = ranks[0]->open_send(Rank{1}, ChannelId{0});
  EXPECT_EQ(link.ok(), reason.empty());
  if (!link.ok()) {
    EXPECT_THAT(link.status().c_str(), testing::AllOf(HasSubstr(describe(1)), HasSubstr(reason)));
  }
  return reason;
}

TEST(Shm, SaysWhyAPeerCannotBeReached) {
  EXPECT_EQ(reason_for([](shm::Address&) {}), "");
  EXPECT_THAT(reason_for([](shm::Address& a) { a.host += "x"; }), HasSubstr("another host"));
  EXPECT_THAT(reason_for([](shm::Address& a) { a.user += 1; }), HasSubstr("another user"));
  EXPECT_THAT(reason_for([](shm::Address& a) { a.dumpable = false; }), HasSubstr("PR_SET_DUMPABLE"));
  EXPECT_THAT(reason_for([](shm::Address& a) { a.geometry.slot_bytes *= 2; }), HasSubstr("TUTTI_TILE"));
  // A process that has ended: pids are below 2^22.
  EXPECT_THAT(reason_for([](shm::Address& a) { a.pid = 1 << 22; }), HasSubstr("has ended"));
  // This process, but a descriptor that is something else.
  EXPECT_THAT(reason_for([](shm::Address& a) { a.token[0] ^= std::byte{1}; }), HasSubstr("no longer"));
}

TEST(Shm, AddressesOfAnotherVersionAreRefused) {
  auto rank = make_shm_transport(context_of(0, 3, small_config()));
  ASSERT_TRUE(rank.ok()) << rank.status().c_str();
  Bytes other = (*rank)->address();
  other[0] ^= std::byte{1};
  ASSERT_TRUE((*rank)->set_peers({(*rank)->address(), other, {}}, {describe(0), describe(1), describe(2)}).ok());
  EXPECT_THAT((*rank)->unreachable_reason(Rank{1}), HasSubstr("another version"));
  EXPECT_THAT((*rank)->unreachable_reason(Rank{2}), HasSubstr("does not offer"));
}

TEST(Shm, TruncatedAddressesAreRefused) {
  auto rank = make_shm_transport(context_of(0, 1, small_config()));
  ASSERT_TRUE(rank.ok());
  const Bytes whole = (*rank)->address();
  shm::Address address;
  for (size_t bytes = 0; bytes < 60; ++bytes) EXPECT_FALSE(shm::decode({whole.data(), bytes}, address)) << bytes;
  ASSERT_TRUE(shm::decode(whole, address));
  EXPECT_EQ(shm::encode(address), whole);
}

TEST(Shm, ALimitOfFileSizesIsAnErrorNotASignal) {
  Processes child(shm_provider(), 1, small_config(), [](uint32_t, Transport&) {
    const rlimit small{1 << 16, 1 << 16};
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) return false;
    auto refused = make_shm_transport(context_of(0, 8, small_config()));
    return !refused.ok() && refused.status().message().find("ulimit -f") != std::string_view::npos;
  });
  EXPECT_TRUE(child.succeeded(0));
}

TEST(Shm, AForkedChildDoesNotAnnounceItsParentsEnd) {
  auto world = shm_provider().make_world(2, small_config());
  Sender sender(world->send_link(0, 1));
  Receiver receiver(world->recv_link(1, 0));
  const pid_t child = ::fork();
  if (child == 0) {
    sender.close();
    receiver.close();
    world->leave(0);
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  auto got = receiver.try_receive(10, stamp());
  ASSERT_TRUE(got.ok()) << got.status().c_str();
  ASSERT_TRUE(send_now(sender, payload(0, 10)));
  got = receiver.try_receive(10, stamp());
  EXPECT_TRUE(got.ok() && *got);
}

TEST(ShmProcess, TellsTheLivingFromTheDead) {
  EXPECT_TRUE(shm::process_lives(::getpid(), shm::own_start_time()));
  EXPECT_FALSE(shm::process_lives(::getpid(), shm::own_start_time() + 1)) << "a later process with the same pid";
  EXPECT_FALSE(shm::process_lives(1 << 22, 0));
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const uint64_t start = shm::own_start_time();
    ::_exit(::write(pipe_ends[1], &start, sizeof start) == sizeof start ? 0 : 1);
  }
  uint64_t start = 0;
  ASSERT_EQ(::read(pipe_ends[0], &start, sizeof start), static_cast<ssize_t>(sizeof start));
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(shm::process_lives(child, start)) << "a zombie";
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(shm::process_lives(child, start));
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

}  // namespace
}  // namespace tutti::conformance
