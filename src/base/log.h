// Log: lines for people on stderr or TUTTI_DEBUG_FILE, never on stdout.
//
// Levels by volume: warn (something the user should act on), info (a few dozen lines per communicator), trace (per
// operation). Subsystems as words: INIT BOOTSTRAP NET SHM TUNE COLL ENV; TUTTI_DEBUG_SUBSYS filters info and trace, a
// warning is always shown. Thread-safe; a line is written whole, as `host:pid:tid [rank] TUTTI INFO text`.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/config.h"

namespace tutti {

enum class Subsystem : uint8_t { init, bootstrap, net, shm, tune, coll, env };

// Takes level, filter and file from config. The first call in the process wins; later ones do nothing.
void configure_log(const Config& config);
// TUTTI_DEBUG_FILE as a path of this process: %h is the host name, %p the process id, %% a percent sign.
std::string expand_log_path(std::string_view pattern);
bool log_enabled(LogLevel level, Subsystem subsystem);
// `rank` < 0: not known yet.
void log_line(LogLevel level, Subsystem subsystem, int rank, std::string_view text);

// Formats only when the line will be written.
template <class... Args>
void log(LogLevel level, Subsystem subsystem, int rank, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level, subsystem)) log_line(level, subsystem, rank, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tutti
