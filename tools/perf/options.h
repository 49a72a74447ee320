// Options: the command line of the *_perf programs, with nccl-tests' letters, long names and defaults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "perf/element.h"

namespace tutti::perf {

enum class Average : uint8_t { rank0, mean, min, max };

struct Options {
  size_t min_bytes = 32 << 20, max_bytes = 32 << 20;
  size_t step_bytes = 1 << 20;
  int step_factor = 1;  // > 1: sizes are multiplied; otherwise step_bytes is added
  int iterations = 20, warmup_iterations = 1, aggregated = 1;
  int checks = 1;
  int cycles = 1;  // 0: until interrupted
  std::vector<Operation> operations = {Operation::sum};
  std::vector<tuttiDataType_t> types = {tuttiFloat32};
  std::vector<int> roots = {0};
  bool all_roots = false;
  int threads = 1;
  bool parallel_init = true;
  int blocking = 0;         // 0 asynchronous; 1 wait and barrier after each call; 2, 3 wait only
  int timeout_seconds = 0;  // 0: the library's
  bool cpu_time = false;
  Average average = Average::mean;
  bool register_buffers = false;
  bool on_gpu = false;  // -g 1: as TUTTI_DEVICE=cuda, where that is not set
  std::string json_file;

  // min_bytes .. max_bytes by the step, ascending.
  std::vector<size_t> sizes() const;
};

struct ParsedOptions {
  Options options;
  bool version = false;   // asked for, instead of all else
  bool exit_now = false;  // help was asked for, or something is wrong
  int exit_status = 0;
  std::string text;  // what to print then: help for stdout, or one line for stderr
};

// `reduces`, `rooted`: whether -o and -r mean anything to the program (they are accepted in any case, as in
// nccl-tests).
ParsedOptions parse_options(int argc, const char* const* argv, bool reduces, bool rooted);

// "64", "64K", "1.5M", "2G", also in small letters and with B at the end; powers of 1024.
Result<size_t> parse_size(const std::string& text);

}  // namespace tutti::perf
