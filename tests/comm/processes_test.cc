// Ranks as processes, one of which is killed or stopped in the middle of its work: the others say so, and which.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "ranks.h"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe2(ends_, O_CLOEXEC), 0); }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(int end) {
    if (ends_[end] >= 0) ::close(ends_[end]);
    ends_[end] = -1;
  }
  // Up to `most` bytes; fewer when the writer is gone, or nothing came for a minute.
  std::string read(size_t most) {
    std::string text(most, '\0');
    size_t got = 0;
    while (got < most) {
      pollfd one{ends_[0], POLLIN, 0};
      if (::poll(&one, 1, kPatienceMs) <= 0) break;
      const ssize_t bytes = ::read(ends_[0], text.data() + got, most - got);
      if (bytes <= 0) break;
      got += static_cast<size_t>(bytes);
    }
    text.resize(got);
    return text;
  }
  bool write(const void* data, size_t bytes) { return ::write(ends_[1], data, bytes) == static_cast<ssize_t>(bytes); }

 private:
  int ends_[2] = {-1, -1};
};

constexpr int kRanks = 4;
constexpr size_t kMostText = 4000;  // a pipe takes that at once

// One rank's process. It does not return; what it has to say goes through its pipe.
struct Child {
  pid_t pid = -1;
  Pipe said;
  std::string text;
};

// What happens to one of the ranks after some rounds.
struct Mishap {
  int victim;
  int signal;
  int timeout_ms;
};
constexpr int kRounds = 20;

[[noreturn]] void work_as(int rank, tuttiUniqueId id, const Mishap& mishap, Pipe& said) {
  const tuttiConfig_t config = config_of(mishap.timeout_ms);
  tuttiComm_t comm = nullptr;
  std::string text = problem(tuttiCommInitRankConfig(&comm, kRanks, id, rank, &config));
  std::vector<float> values(30'000);
  for (int round = 0; text.empty(); ++round) {
    if (rank == mishap.victim && round == kRounds) ::kill(::getpid(), mishap.signal);
    values.assign(values.size(), 1);
    text = problem(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiFloat32, tuttiSum, comm, nullptr));
    if (text.empty() && values.back() != kRanks) text = "wrong result";
  }
  if (comm && tuttiCommDestroy(comm) != tuttiSuccess) text += " and destroy failed";
  said.write(text.data(), std::min(text.size(), kMostText));
  ::_exit(0);
}

// Forks all ranks, collects what they say, and ends what is left. The id is made by the parent, or by rank 0's process:
// by either only when all are forked, since a child would get a copy of a lock that the hub's thread holds just then.
void run_ranks(const Mishap& mishap, bool parent_makes_id, Child (&children)[kRanks]) {
  Pipe ids[kRanks], start;
  for (int rank = 0; rank < kRanks; ++rank) {
    Child& child = children[rank];
    child.pid = ::fork();
    ASSERT_GE(child.pid, 0);
    if (child.pid > 0) continue;
    start.close_end(1);
    // Or what the others say would not end before this one, who may be stopped, does.
    for (Child& other : children)
      if (&other != &child) other.said.close_end(1);
    (void)start.read(1);  // until the last holder of the other end has closed it
    tuttiUniqueId id;
    if (!parent_makes_id && rank == 0) {
      id = unique_id();
      for (int other = 1; other < kRanks; ++other) ids[other].write(&id, sizeof id);
    } else if (const std::string bytes = ids[rank].read(sizeof id); bytes.size() == sizeof id) {
      std::memcpy(&id, bytes.data(), sizeof id);
    }
    work_as(rank, id, mishap, child.said);
  }
  start.close_end(1);
  if (parent_makes_id) {
    const tuttiUniqueId id = unique_id();
    for (Pipe& pipe : ids) pipe.write(&id, sizeof id);
  }
  for (Child& child : children) child.said.close_end(1);
  for (Pipe& pipe : ids) pipe.close_end(1);
  for (Child& child : children)
    if (&child != &children[mishap.victim]) child.text = child.said.read(kMostText);
  for (Child& child : children) {
    if (child.text.empty()) ::kill(child.pid, SIGKILL);  // the victim, or one that hangs
    EXPECT_EQ(::waitpid(child.pid, nullptr, 0), child.pid);
  }
  children[mishap.victim].text = children[mishap.victim].said.read(kMostText);
}

class Processes : public testing::TestWithParam<std::tuple<bool, const char*, int>> {};

TEST_P(Processes, SurvivorsNameTheOneThatWasKilled) {
  const auto& [parent_makes_id, transport, victim] = GetParam();
  const Environment environment{{"TUTTI_TRANSPORT", transport}};
  Child children[kRanks];
  // Longer than the parent waits: only news of the death ends the work in time.
  run_ranks({victim, SIGKILL, 2 * kPatienceMs}, parent_makes_id, children);
  EXPECT_EQ(children[victim].text, "");
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == victim) continue;
    EXPECT_THAT(children[rank].text, AllOf(StartsWith("remote error"), HasSubstr("rank " + std::to_string(victim)),
                                           HasSubstr("pid " + std::to_string(children[victim].pid) + ")")))
        << "rank " << rank;
  }
}

// Whoever each of them waits for, it is the stopped rank that all are told of: also where that holds the meeting point.
TEST_P(Processes, OthersNameTheOneThatIsStopped) {
  const auto& [parent_makes_id, transport, victim] = GetParam();
  const Environment environment{{"TUTTI_TRANSPORT", transport}, {"TUTTI_ALGO", "ring"}};
  Child children[kRanks];
  run_ranks({victim, SIGSTOP, 3000}, parent_makes_id, children);
  EXPECT_EQ(children[victim].text, "");
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == victim) continue;
    EXPECT_THAT(children[rank].text, AllOf(StartsWith("timeout"), HasSubstr("rank " + std::to_string(victim)),
                                           HasSubstr("pid " + std::to_string(children[victim].pid) + ")")))
        << "rank " << rank;
  }
}

// Those in which the parent makes the id leave it with a thread, so they come last: a child should have a parent without.
INSTANTIATE_TEST_SUITE_P(Victims, Processes,
                         testing::Combine(testing::Bool(), testing::Values("shm", "tcp"), testing::Values(0, 2)),
                         [](const auto& parameters) {
                           return std::string(std::get<1>(parameters.param)) + "_rank" +
                                  std::to_string(std::get<2>(parameters.param)) +
                                  (std::get<0>(parameters.param) ? "_id_of_parent" : "_id_of_rank0");
                         });

}  // namespace
}  // namespace tutti::test
