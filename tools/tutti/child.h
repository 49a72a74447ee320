// Child: one rank's process.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace tutti::run {

struct Child {
  pid_t pid = -1;  // also its process group
  bool running = false;
  int killed_by = 0;    // once it does not run any more: the signal, if one ended it
  int exit_status = 0;  // as a shell reports it: 128 + signal when killed
  Fd out, err;          // read ends, when its output is labelled
};

struct ChildSpec {
  std::string file;                      // what to execute
  std::vector<std::string> arguments;    // argv
  std::vector<std::string> environment;  // the whole of it
  bool take_output = false;
  bool keep_stdin = false;  // else /dev/null
};

// Returns when the program runs: a failure to execute it is a failure here. O(1) in the number of ranks.
Result<Child> start_child(const ChildSpec& spec);

}  // namespace tutti::run
