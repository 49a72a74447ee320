// Progress: one line on the terminal that says how far a long run is. Nothing when stderr is no terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti::perf {

class Progress {
 public:
  // `steps`: how many times step() will be called; 0: not known.
  explicit Progress(size_t steps);
  ~Progress() { clear(); }
  // Says what is under way, once the run has taken two seconds, at most ten times a second.
  void step(std::string_view what);
  // Removes the line, so that a row can be printed in its place.
  void clear();

 private:
  bool on_terminal_;
  bool shown_ = false;
  size_t steps_, done_ = 0;
  uint64_t started_ns_, last_ns_ = 0;
};

}  // namespace tutti::perf
