// Ranks as threads of this process, driven through the C API as a framework would.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::test {

// "" for success, else "kind of error: the library's sentence", for the calling thread's last call.
std::string problem(tuttiResult_t result);
void expect_done(tuttiResult_t result, const char* call, const char* file, int line);
#define EXPECT_DONE(call) ::tutti::test::expect_done(call, #call, __FILE__, __LINE__)
#define ASSERT_DONE(call) ASSERT_EQ(::tutti::test::problem(call), "") << #call

// Sets TUTTI_ variables for as long as it lives; all others are unset, but for the interface, which is loopback. Make
// it before there are ranks: the environment must not change while threads read it.
class Environment {
 public:
  Environment() : Environment(std::initializer_list<std::pair<std::string, std::string>>{}) {}
  Environment(std::initializer_list<std::pair<std::string, std::string>> variables);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  // Also later, between calls that read it in this one thread.
  void set(const std::string& name, const std::string& value);

 private:
  std::map<std::string, std::string> before_;  // the TUTTI_ variables that were set
};

// Long enough for a crowded machine under a sanitizer, shorter than the test's own limit.
constexpr int kPatienceMs = 60'000;
// For tests in which somebody waits for a rank that never comes.
constexpr int kShortMs = 500;

tuttiConfig_t config_of(int timeout_ms, const char* name = nullptr);
tuttiUniqueId unique_id();

struct Member {
  tuttiComm_t comm;
  int rank, n;
};

// Runs body(0) .. body(n - 1), each in a thread of its own, and waits for all.
void in_threads(int n, const std::function<void(int)>& body);

class Ranks {
 public:
  explicit Ranks(int n, int timeout_ms = kPatienceMs, const char* name = nullptr);
  ~Ranks();  // destroys what is left, one rank after the other
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int size() const { return static_cast<int>(comms_.size()); }
  tuttiComm_t operator[](int rank) const { return comms_[static_cast<size_t>(rank)]; }
  // All ranks at once, each in its thread.
  void run(const std::function<void(const Member&)>& body) const;
  // What each rank's body returned, by rank.
  std::vector<std::string> each(const std::function<std::string(const Member&)>& body) const;
  // The test has ended this rank's communicator itself.
  void forget(int rank) { comms_[static_cast<size_t>(rank)] = nullptr; }
  void destroy(int rank);

 private:
  std::vector<tuttiComm_t> comms_;
};

// A barrier and an all_reduce give the right answer: the communicators are as good as new.
void expect_usable(const Ranks& ranks);
void expect_usable(const Member& member);

std::string algorithm_of(tuttiComm_t comm, const char* collective, size_t count, tuttiDataType_t type = tuttiFloat32);

// The parameter of most tests: a transport's name and a number of ranks.
struct World {
  const char* transport;
  int n;
  friend void PrintTo(const World& world, std::ostream* out) { *out << world.n << " ranks over " << world.transport; }
};
std::vector<World> worlds(const std::vector<int>& sizes);
std::string world_name(const testing::TestParamInfo<World>& info);

class WorldTest : public testing::TestWithParam<World> {
 protected:
  int n() const { return GetParam().n; }
  Environment environment_{{"TUTTI_TRANSPORT", GetParam().transport}};
};

}  // namespace tutti::test
