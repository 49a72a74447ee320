// TUTTI_ variables through the API: what is forced is used, what cannot be had is an error that says what can.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "ranks.h"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

// What a communicator of one rank gets.
std::string problem_alone() {
  tuttiComm_t comm = nullptr;
  const std::string text = problem(tuttiCommInitAll(&comm, 1, nullptr));
  if (comm) EXPECT_DONE(tuttiCommDestroy(comm));
  return text;
}

TEST(EnvironmentVariables, AnUnknownNameIsAnErrorWithASuggestion) {
  const Environment environment{{"TUTTI_ALGOS", "ring"}};
  EXPECT_THAT(problem_alone(),
              AllOf(StartsWith("invalid usage"), HasSubstr("TUTTI_ALGOS"), HasSubstr("mean TUTTI_ALGO?")));
  tuttiUniqueId id;
  EXPECT_THAT(problem(tuttiGetUniqueId(&id)), HasSubstr("TUTTI_ALGOS"));
}

TEST(EnvironmentVariables, AnUnknownAlgorithmIsAnErrorThatListsThem) {
  const Environment environment{{"TUTTI_ALGO", "rang"}};
  EXPECT_THAT(problem_alone(), AllOf(StartsWith("invalid usage"), HasSubstr("rang"), HasSubstr("ring"),
                                     HasSubstr("tree"), HasSubstr("all_pairs"), HasSubstr("halving_doubling")));
}

TEST(EnvironmentVariables, AnAlgorithmThatACollectiveLacksIsAnErrorThatListsItsOwn) {
  const Environment environment{{"TUTTI_ALGO", "alltoall:ring"}};
  EXPECT_THAT(problem_alone(), AllOf(StartsWith("invalid usage"), HasSubstr("all_to_all"), HasSubstr("all_pairs")));
}

// The general list does not suit every collective: said by the call, which sends nothing.
TEST(EnvironmentVariables, AnAlgorithmThatDoesNotApplyIsAnErrorOfTheCall) {
  const Environment environment{{"TUTTI_ALGO", "tree"}};
  const Ranks ranks(3);
  ranks.run([](const Member& me) {
    expect_usable(me);
    EXPECT_EQ(algorithm_of(me.comm, "all_reduce", 1000), "tree");
    tuttiChoice_t choice{};
    choice.size = sizeof choice;
    EXPECT_THAT(problem(tuttiCommQueryChoice(me.comm, "all_gather", 1, tuttiInt32, &choice)),
                AllOf(StartsWith("invalid usage"), HasSubstr("TUTTI_ALGO"), HasSubstr("ring")));
  });
  ranks.run([](const Member& me) {
    int32_t mine = me.rank, all[3];
    EXPECT_THAT(problem(tuttiAllGather(&mine, all, 1, tuttiInt32, me.comm, nullptr)),
                AllOf(StartsWith("invalid usage"), HasSubstr("TUTTI_ALGO"), HasSubstr("ring")));
  });
}

struct Forced {
  const char* value;
  const char* collective;
  const char* algorithm;
};

class ForcedAlgorithm : public testing::TestWithParam<Forced> {};

TEST_P(ForcedAlgorithm, IsUsed) {
  const Environment environment{{"TUTTI_ALGO", GetParam().value}};
  for (int n : {1, 2, 3, 5}) {
    const Ranks ranks(n);
    ranks.run([](const Member& me) {
      for (size_t count : {size_t{1}, size_t{1000}, size_t{1'000'000}}) {
        tuttiChoice_t choice{};
        choice.size = sizeof choice;
        EXPECT_DONE(tuttiCommQueryChoice(me.comm, GetParam().collective, count, tuttiInt32, &choice));
        EXPECT_STREQ(choice.algorithm, GetParam().algorithm);
        EXPECT_TRUE(choice.algorithm_forced);
        EXPECT_FALSE(choice.transport_forced);
        EXPECT_STREQ(choice.transport, me.n == 1 ? "self" : "shm");
      }
      for (size_t count : {size_t{3}, size_t{40'000}}) {
        std::vector<int32_t> values(count, me.rank == 0 ? 2 : 1);
        if (GetParam().collective == std::string("all_reduce")) {
          EXPECT_DONE(tuttiAllReduce(values.data(), values.data(), count, tuttiInt32, tuttiSum, me.comm, nullptr));
          EXPECT_TRUE(values == std::vector<int32_t>(count, me.n + 1));
        } else {
          EXPECT_DONE(tuttiBroadcast(values.data(), values.data(), count, tuttiInt32, 0, me.comm, nullptr));
          EXPECT_TRUE(values == std::vector<int32_t>(count, 2));
        }
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Values, ForcedAlgorithm,
                         testing::Values(Forced{"ring", "all_reduce", "ring"}, Forced{"tree", "all_reduce", "tree"},
                                         Forced{"all_pairs", "all_reduce", "all_pairs"},
                                         Forced{"all_pairs_one_shot", "all_reduce", "all_pairs_one_shot"},
                                         Forced{"recursive_doubling", "all_reduce", "recursive_doubling"},
                                         Forced{"halving_doubling", "all_reduce", "halving_doubling"},
                                         Forced{"^ring,tree", "broadcast", "all_pairs"},
                                         Forced{"tree;broadcast:ring", "broadcast", "ring"},
                                         Forced{"allreduce:tree;broadcast:ring", "all_reduce", "tree"}),
                         [](const auto& parameters) { return "Case" + std::to_string(parameters.index); });

TEST(EnvironmentVariables, AForcedTransportIsUsed) {
  for (const char* transport : {"shm", "tcp"}) {
    const Environment environment{{"TUTTI_TRANSPORT", transport}};
    const Ranks ranks(2);
    tuttiChoice_t choice{};
    choice.size = sizeof choice;
    EXPECT_DONE(tuttiCommQueryChoice(ranks[0], "all_reduce", 1, tuttiInt32, &choice));
    EXPECT_STREQ(choice.transport, transport);
    EXPECT_TRUE(choice.transport_forced);
    expect_usable(ranks);
  }
}

TEST(EnvironmentVariables, TheMachineIsWrittenWhereItIsAskedFor) {
  for (const auto& [ending, beginning] :
       {std::pair{".json", "{\n \"tutti_machine\": 1"}, {".xml", "<system version="}}) {
    const std::string path = testing::TempDir() + "tutti-dump-" + std::to_string(::getpid()) + ending;
    const Environment environment{{"TUTTI_TOPO_DUMP_FILE", path.c_str()}};
    const Ranks ranks(2);
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    ::unlink(path.c_str());
    EXPECT_THAT(text.str(), StartsWith(beginning));
  }
  const Environment environment{{"TUTTI_TOPO_DUMP_FILE", "/nonexistent/topo.json"}};
  EXPECT_THAT(problem_alone(), AllOf(HasSubstr("/nonexistent/topo.json"), HasSubstr("ENOENT")));
}

TEST(EnvironmentVariables, WhereNoTransportThatIsAllowedIsAvailableTheErrorSaysWhyOfEach) {
  for (const char* allowed : {"p2p", "^shm,verbs,tcp"}) {
    const Environment environment{{"TUTTI_TRANSPORT", allowed}};
    EXPECT_THAT(problem_alone(), AllOf(StartsWith("invalid usage"), HasSubstr("none that is available"),
                                       HasSubstr("p2p: its buffers are in host memory"), HasSubstr("shm and tcp")));
  }
  const Environment environment{{"TUTTI_TRANSPORT", "sim"}};
  EXPECT_THAT(problem_alone(), AllOf(StartsWith("invalid usage"), HasSubstr("for tests")));
}

TEST(EnvironmentVariables, AnInterfaceThatDoesNotExistIsAnErrorThatListsThem) {
  const Environment environment{{"TUTTI_SOCKET_IFNAME", "nosuch0"}};
  EXPECT_THAT(problem_alone(), AllOf(StartsWith("invalid usage"), HasSubstr("nosuch0"), HasSubstr("lo")));
}

// Holds a port of loopback.
class TakenPort {
 public:
  TakenPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(fd_, 1), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
  }
  ~TakenPort() { ::close(fd_); }
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;
  std::string text() const { return std::to_string(port_); }

 private:
  int fd_;
  int port_ = 0;
};

TEST(EnvironmentVariables, APortRangeThatIsTakenIsAnErrorThatNamesIt) {
  const TakenPort port;
  const Environment environment{{"TUTTI_PORT_RANGE", port.text()}};
  const std::string text = problem_alone();
  EXPECT_NE(text, "");
  EXPECT_THAT(text, AllOf(HasSubstr("TUTTI_PORT_RANGE"), HasSubstr(port.text())));
}

// The path of a file with these parameters.
std::string tuning_file(const std::string& name, const std::string& parameters) {
  const std::string path = testing::TempDir() + "/tutti_tuning_" + name + "_" + std::to_string(::getpid()) + ".json";
  std::ofstream(path) << R"({"tutti_tuning": 1, "parameters": {)" << parameters << "}}";
  return path;
}

// Where only waiting costs, the fewest hand-overs are chosen; where only bytes do, the fewest bytes.
TEST(EnvironmentVariables, ATuningFileChangesTheChoice) {
  const std::string bytes_only =
      tuning_file("bytes", R"("mapped_latency_ns": 0, "mapped_message_ns": 0, "handover_ns": 0, "step_ns": 0,
                  "mapped_send_ns_per_kib": 1e6)");
  const std::string waits_only =
      tuning_file("waits", R"("mapped_latency_ns": 1e6, "mapped_message_ns": 0, "handover_ns": 1e6, "step_ns": 0,
                  "mapped_send_ns_per_kib": 0, "fold_ns_per_kib": 0, "store_ns_per_kib": 0)");
  for (const std::string& path : {bytes_only, waits_only}) {
    const Environment environment{{"TUTTI_TUNING_FILE", path}};
    const Ranks ranks(3);
    EXPECT_EQ(algorithm_of(ranks[0], "all_reduce", 1000) == "all_pairs_one_shot", path == waits_only) << path;
    expect_usable(ranks);
    ::unlink(path.c_str());
  }
}

TEST(EnvironmentVariables, ABadTuningFileIsAnErrorThatSaysWhatIsWrong) {
  const std::string path = tuning_file("bad", R"("step_nanoseconds": 1)");
  const Environment environment{{"TUTTI_TUNING_FILE", path}};
  EXPECT_THAT(problem_alone(), AllOf(StartsWith("invalid usage"), HasSubstr(path), HasSubstr("step_nanoseconds")));
  ::unlink(path.c_str());
  EXPECT_THAT(problem_alone(), AllOf(StartsWith("invalid usage"), HasSubstr(path), HasSubstr("No such file")));
}

// The environment is read by the call, the meeting is at the group's end: so one thread can be ranks with different
// settings.
TEST(EnvironmentVariables, RanksWithDifferentSettingsAreBothNamed) {
  const std::string tuning = tuning_file("differs", R"("step_ns": 12345)");
  const std::pair<const char*, std::string> settings[] = {{"TUTTI_ALGO", "ring"},
                                                          {"TUTTI_TRANSPORT", "tcp"},
                                                          {"TUTTI_LANES", "2"},
                                                          {"TUTTI_TILE", "4096"},
                                                          {"TUTTI_TUNING_FILE", tuning}};
  for (const auto& [name, value] : settings) {
    Environment environment;
    const tuttiUniqueId id = unique_id();
    std::vector<std::string> texts;
    // Each rank alone with its group's error: two threads, one of which reads the environment after the other.
    tuttiComm_t comms[2] = {};
    EXPECT_DONE(tuttiGroupStart());
    EXPECT_DONE(tuttiCommInitRank(&comms[0], 2, id, 0));
    environment.set(name, value);
    EXPECT_DONE(tuttiCommInitRank(&comms[1], 2, id, 1));
    EXPECT_THAT(problem(tuttiGroupEnd()), AllOf(StartsWith("invalid usage"), HasSubstr("rank 0 (host"),
                                                HasSubstr("rank 1 (host"), HasSubstr(name)));
    EXPECT_EQ(comms[0], nullptr);
    EXPECT_EQ(comms[1], nullptr);
  }
  ::unlink(tuning.c_str());
}

TEST(EnvironmentVariables, TheTimeoutComesFromTheEnvironment) {
  const Environment environment{{"TUTTI_TIMEOUT", "0.5"}};
  const Ranks ranks(2, TUTTI_CONFIG_UNDEF_INT);
  EXPECT_THAT(problem(tuttiBarrier(ranks[0], nullptr)), AllOf(StartsWith("timeout"), HasSubstr("rank 1 (host")));
}

TEST(EnvironmentVariables, LanesAndTilesAreHonoured) {
  const Environment environment{{"TUTTI_LANES", "3"}, {"TUTTI_TILE", "4096"}};
  const Ranks ranks(3);
  ranks.run([](const Member& me) {
    tuttiChoice_t choice{};
    choice.size = sizeof choice;
    EXPECT_DONE(tuttiCommQueryChoice(me.comm, "all_reduce", 100'000, tuttiInt32, &choice));
    EXPECT_EQ(choice.lanes, 3);
    EXPECT_EQ(choice.tile_bytes, 4096U);
    std::vector<int32_t> values(100'003, 1);
    EXPECT_DONE(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiInt32, tuttiSum, me.comm, nullptr));
    EXPECT_TRUE(values == std::vector<int32_t>(values.size(), 3));
  });
}

}  // namespace
}  // namespace tutti::test
