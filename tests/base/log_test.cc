// Log lines. A process configures its log once, so each case runs in a process of its own.
#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/host.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/tutti_log_XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    folder_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Runs `body` in a child that logs by these entries into a file; the lines of that file.
  std::vector<std::string> lines_of(std::vector<std::string> entries, void (*body)()) {
    entries.push_back("TUTTI_DEBUG_FILE=" + folder_ + "/log.%h.%p");
    child_ = ::fork();
    if (child_ == 0) {
      configure_log(config_from_entries(entries).value());
      body();
      ::_exit(0);
    }
    int status = -1;
    ::waitpid(child_, &status, 0);
    EXPECT_EQ(status, 0);
    std::ifstream file(folder_ + "/log." + host_name() + "." + std::to_string(child_));
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  std::string folder_;
  pid_t child_ = -1;
};

TEST_F(LogTest, ALineSaysWhoAndWhat) {
  const auto lines = lines_of({"TUTTI_DEBUG=INFO"}, [] {
    log(LogLevel::info, Subsystem::net, 3, "{} links", 7);
    log(LogLevel::warn, Subsystem::init, -1, "no rank yet");
    log(LogLevel::trace, Subsystem::net, 3, "not at this level");
    log(LogLevel::info, Subsystem::coll, 0, "two\nlines");
  });
  ASSERT_THAT(lines, SizeIs(4));
  const std::string process = host_name() + ":" + std::to_string(child_) + ":[0-9]+ ";
  EXPECT_THAT(lines[0], MatchesRegex(process + "\\[3\\] TUTTI INFO 7 links"));
  EXPECT_THAT(lines[1], MatchesRegex(process + "\\[\\?\\] TUTTI WARN no rank yet"));
  EXPECT_THAT(lines[2], MatchesRegex(process + "\\[0\\] TUTTI INFO two"));
  EXPECT_THAT(lines[3], MatchesRegex(process + "\\[0\\] TUTTI INFO lines"));
}

TEST_F(LogTest, SubsystemsFilterInfoButNotWarnings) {
  auto body = [] {
    log(LogLevel::info, Subsystem::net, 0, "net");
    log(LogLevel::info, Subsystem::shm, 0, "shm");
    log(LogLevel::warn, Subsystem::shm, 0, "warning");
  };
  auto lines = lines_of({"TUTTI_DEBUG=INFO", "TUTTI_DEBUG_SUBSYS=NET"}, body);
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[0], HasSubstr("INFO net"));
  EXPECT_THAT(lines[1], HasSubstr("WARN warning"));
  EXPECT_THAT(lines_of({"TUTTI_DEBUG=INFO", "TUTTI_DEBUG_SUBSYS=^NET"}, body), SizeIs(2));
  EXPECT_THAT(lines_of({"TUTTI_DEBUG=INFO", "TUTTI_DEBUG_SUBSYS=ALL"}, body), SizeIs(3));
  EXPECT_THAT(lines_of({"TUTTI_DEBUG=INFO", "TUTTI_DEBUG_SUBSYS=^ALL"}, body), SizeIs(1));
  EXPECT_THAT(lines_of({"TUTTI_DEBUG=NONE"}, body), SizeIs(0));
}

TEST_F(LogTest, TheFirstConfigurationWins) {
  const auto lines = lines_of({"TUTTI_DEBUG=WARN"}, [] {
    Config louder;
    louder.debug = LogLevel::trace;
    configure_log(louder);
    log(LogLevel::info, Subsystem::init, 0, "unheard");
    log(LogLevel::warn, Subsystem::init, 0, "heard");
  });
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0], HasSubstr("WARN heard"));
}

TEST_F(LogTest, LinesOfSeveralThreadsStayWhole) {
  const auto lines = lines_of({"TUTTI_DEBUG=TRACE"}, [] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([t] {
        for (int i = 0; i < 200; ++i) log(LogLevel::trace, Subsystem::coll, t, "<{}>", std::string(100, 'x'));
      });
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_THAT(lines, SizeIs(800));
  for (const std::string& line : lines) EXPECT_THAT(line, MatchesRegex(".* \\[[0-3]\\] TUTTI TRACE <x+>"));
}

TEST(LogPath, NamesHostAndProcess) {
  EXPECT_EQ(expand_log_path("/tmp/a.%h.%p"), "/tmp/a." + host_name() + "." + std::to_string(::getpid()));
  EXPECT_EQ(expand_log_path("100%%.log"), "100%.log");
  EXPECT_EQ(expand_log_path(""), "");
}

}  // namespace
}  // namespace tutti
