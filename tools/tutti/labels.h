// Labels: copies the ranks' output, line by line, with [rank] in front.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace tutti::run {

// One stream of one rank.
class LabelledStream {
 public:
  LabelledStream(int rank, int to) : prefix_(fmt::format("[{}] ", rank)), to_(to) {}

  // Takes what has come and writes the lines that are complete. Lines longer than 64 KiB are broken.
  void add(std::string_view text);
  // Writes what is left, as a line.
  void finish();

 private:
  void write_line(std::string_view line, std::string& out) const;

  std::string prefix_;
  int to_;
  std::string rest_;
};

// Reads all that is there, without waiting. False at the end of the stream.
bool pump(int from, LabelledStream& stream);

}  // namespace tutti::run
