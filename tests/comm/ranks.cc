#include "ranks.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <thread>

namespace tutti::test {

std::string problem(tuttiResult_t result) {
  if (result == tuttiSuccess) return "";
  return std::string(tuttiGetErrorString(result)) + ": " + tuttiGetLastError(nullptr);
}

void expect_done(tuttiResult_t result, const char* call, const char* file, int line) {
  if (result != tuttiSuccess) ADD_FAILURE_AT(file, line) << call << "\n" << problem(result);
}

namespace {

std::map<std::string, std::string> tutti_variables() {
  std::map<std::string, std::string> found;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (text.starts_with("TUTTI_") && equals != std::string_view::npos)
      found.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

void unset_tutti_variables() {
  for (const auto& [name, value] : tutti_variables()) ::unsetenv(name.c_str());
}

}  // namespace

Environment::Environment(std::initializer_list<std::pair<std::string, std::string>> variables)
    : before_(tutti_variables()) {
  unset_tutti_variables();
  set("TUTTI_SOCKET_IFNAME", "=lo");
  for (const auto& [name, value] : variables) set(name, value);
}

Environment::~Environment() {
  unset_tutti_variables();
  for (const auto& [name, value] : before_) set(name, value);
}

void Environment::set(const std::string& name, const std::string& value) { ::setenv(name.c_str(), value.c_str(), 1); }

tuttiConfig_t config_of(int timeout_ms, const char* name) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeout_ms = timeout_ms;
  config.name = name;
  return config;
}

tuttiUniqueId unique_id() {
  tuttiUniqueId id;
  EXPECT_DONE(tuttiGetUniqueId(&id));
  return id;
}

void in_threads(int n, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back([&body, i] { body(i); });
}

Ranks::Ranks(int n, int timeout_ms, const char* name) : comms_(static_cast<size_t>(n)) {
  const tuttiUniqueId id = unique_id();
  const tuttiConfig_t config = config_of(timeout_ms, name);
  in_threads(n,
             [&](int r) { EXPECT_DONE(tuttiCommInitRankConfig(&comms_[static_cast<size_t>(r)], n, id, r, &config)); });
}

Ranks::~Ranks() {
  for (int r = 0; r < size(); ++r) destroy(r);
}

void Ranks::destroy(int rank) {
  tuttiComm_t& comm = comms_[static_cast<size_t>(rank)];
  if (comm) EXPECT_DONE(tuttiCommDestroy(comm));
  comm = nullptr;
}

void Ranks::run(const std::function<void(const Member&)>& body) const {
  in_threads(size(), [&](int r) { body({(*this)[r], r, size()}); });
}

std::vector<std::string> Ranks::each(const std::function<std::string(const Member&)>& body) const {
  std::vector<std::string> texts(comms_.size());
  run([&](const Member& member) { texts[static_cast<size_t>(member.rank)] = body(member); });
  return texts;
}

void expect_usable(const Member& member) {
  EXPECT_DONE(tuttiBarrier(member.comm, nullptr));
  int64_t values[2] = {member.rank + 1, -member.rank};
  EXPECT_DONE(tuttiAllReduce(values, values, 2, tuttiInt64, tuttiSum, member.comm, nullptr));
  EXPECT_EQ(values[0], member.n * (member.n + 1) / 2);
  EXPECT_EQ(values[1], -member.n * (member.n - 1) / 2);
}

void expect_usable(const Ranks& ranks) {
  ranks.run([](const Member& member) { expect_usable(member); });
}

std::string algorithm_of(tuttiComm_t comm, const char* collective, size_t count, tuttiDataType_t type) {
  tuttiChoice_t choice{};
  choice.size = sizeof choice;
  EXPECT_DONE(tuttiCommQueryChoice(comm, collective, count, type, &choice));
  return choice.algorithm ? choice.algorithm : "";
}

std::vector<World> worlds(const std::vector<int>& sizes) {
  std::vector<World> all;
  for (const char* transport : {"shm", "tcp"})
    for (int n : sizes) all.push_back({transport, n});
  return all;
}

std::string world_name(const testing::TestParamInfo<World>& info) {
  return std::string(info.param.transport) + "_" + std::to_string(info.param.n);
}

}  // namespace tutti::test
