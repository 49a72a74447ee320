#include "base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>

#include "base/host.h"

namespace tutti {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"NONE", "VERSION", "WARN", "INFO", "TRACE"};
constexpr std::array<std::string_view, 7> kSubsystemNames = {"INIT", "BOOTSTRAP", "NET", "SHM", "TUNE", "COLL", "ENV"};

struct Settings {
  LogLevel level = LogLevel::warn;
  uint32_t subsystems = ~0u;  // bit per Subsystem
  int fd = STDERR_FILENO;
  std::string host = host_name();
};

// Made once and never freed, so that a line may be logged by a thread that outlives main.
std::atomic<const Settings*> g_settings = nullptr;
std::mutex g_configuring;

const Settings& settings() {
  // Acquire pairs with the release in configure_log: whoever sees the pointer sees what it points to.
  if (const Settings* configured = g_settings.load(std::memory_order_acquire)) return *configured;
  static const Settings* const kDefaults = new Settings;
  return *kDefaults;
}

uint32_t subsystem_bits(const NameList& list) {
  uint32_t bits = 0;
  for (size_t i = 0; i < kSubsystemNames.size(); ++i) {
    const bool all_named = !list.empty() && NameList{false, list.names}.allows("ALL");
    const bool wanted = all_named ? !list.exclude : list.allows(kSubsystemNames[i]);
    bits |= static_cast<uint32_t>(wanted) << i;
  }
  return bits;
}

void write_all(int fd, std::string_view text) {
  // One write is the rule (atomic with O_APPEND, and up to PIPE_BUF on a pipe); the loop is for a full disk's or a
  // pipe's short count. A log that cannot be written is given up silently: there is nowhere left to say so.
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

std::string expand_log_path(std::string_view pattern) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h')
      path += host_name();
    else if (next == 'p')
      path += std::to_string(::getpid());
    else if (next == '%')
      path += '%';
    else
      path += pattern[i];
    i += next == 'h' || next == 'p' || next == '%';
  }
  return path;
}

void configure_log(const Config& config) {
  const std::lock_guard lock(g_configuring);
  // Relaxed: only this function stores, under the mutex.
  if (g_settings.load(std::memory_order_relaxed)) return;
  auto* made = new Settings;
  made->level = config.debug;
  made->subsystems = subsystem_bits(config.debug_subsys);
  int open_error = 0;
  const std::string path = expand_log_path(config.debug_file);
  if (!path.empty() && config.debug != LogLevel::none) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
      open_error = errno;
    else
      made->fd = fd;
  }
  // Release: publishes *made to settings().
  g_settings.store(made, std::memory_order_release);
  if (open_error != 0) {
    const Status status =
        system_error(fmt::format("cannot open TUTTI_DEBUG_FILE '{}'", path), open_error, "logging to stderr instead");
    log(LogLevel::warn, Subsystem::env, -1, "{}", status.message());
  }
}

bool log_enabled(LogLevel level, Subsystem subsystem) {
  const Settings& now = settings();
  if (level == LogLevel::none || level > now.level) return false;
  return level <= LogLevel::warn || (now.subsystems >> static_cast<unsigned>(subsystem) & 1u) != 0;
}

void log_line(LogLevel level, Subsystem subsystem, int rank, std::string_view text) {
  if (!log_enabled(level, subsystem)) return;
  const Settings& now = settings();
  const std::string prefix =
      fmt::format("{}:{}:{} [{}] TUTTI {} ", now.host, ::getpid(), ::gettid(), rank < 0 ? "?" : std::to_string(rank),
                  kLevelNames[static_cast<size_t>(level)]);
  // A text of several lines gets the prefix on each, so that a filter by host or rank keeps all of it.
  std::string lines;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines += prefix;
    lines += text.substr(begin, end - begin);
    lines += '\n';
    begin = end + 1;
  }
  write_all(now.fd, lines);
}

}  // namespace tutti
