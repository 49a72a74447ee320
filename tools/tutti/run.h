// Run: starts the ranks of one host as processes and stays until all have ended.
//
// Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and TUTTI_JOB_ID, and a
// process group of its own, so that what a rank starts ends with it. Signals that the launcher gets go to all ranks.
// When a rank fails, the others have a while to say what they saw; then SIGTERM, then SIGKILL. Ranks die with the
// launcher, however it dies.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::run {

struct Spec {
  int nranks = 0;
  std::vector<std::string> environment;  // "NAME=value", over what is set otherwise
  bool label = false;                    // begin every line of output with [rank]
  int grace_ms = 5000;                   // from the first failure to SIGTERM, and from there to SIGKILL
  std::vector<std::string> command;      // program and arguments; not empty
};

// What a shell reports for a command: 127 not found, 126 found but not to be run, 128 + signal.
constexpr int kNotFound = 127, kNotExecutable = 126, kKilled = 128;

// Blocks. The exit status: 0, or that of the rank that failed first. A failure to start is a Status;
// status_of_failure() says which exit status it deserves. Uses SIGCHLD and the process's signal mask: one call per
// process.
Result<int> run_ranks(const Spec& spec);

// The file that execvp would run: `program` itself when it has a slash, else the first match in PATH.
// tuttiInvalidArgument: not found; tuttiInvalidUsage: found, but not executable.
Result<std::string> find_program(const std::string& program);

// Where the ranks meet: a numeric address of this host and a port of it that is free, as are the seven after it (the
// hub takes the next one when it loses a race).
struct LocalMeeting {
  std::string host;
  int port;
};
// On `wanted` where it is not empty, else on 127.0.0.1 or, where there is none, on ::1.
Result<LocalMeeting> local_meeting(const std::string& wanted);

}  // namespace tutti::run
