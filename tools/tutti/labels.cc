#include "tutti/labels.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace tutti::run {
namespace {

constexpr size_t kLongestLine = 64 << 10;

void write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t some = ::write(to, text.data(), text.size());
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return;  // nobody reads any more
    text.remove_prefix(static_cast<size_t>(some));
  }
}

}  // namespace

void LabelledStream::write_line(std::string_view line, std::string& out) const {
  out += prefix_;
  out += line;
  out += '\n';
}

void LabelledStream::add(std::string_view text) {
  rest_ += text;
  std::string out;
  size_t start = 0;
  for (size_t end; (end = rest_.find('\n', start)) != std::string::npos; start = end + 1)
    write_line(std::string_view(rest_).substr(start, end - start), out);
  rest_.erase(0, start);
  if (rest_.size() >= kLongestLine) write_line(std::exchange(rest_, {}), out);
  write_all(to_, out);
}

void LabelledStream::finish() {
  if (rest_.empty()) return;
  std::string out;
  write_line(std::exchange(rest_, {}), out);
  write_all(to_, out);
}

bool pump(int from, LabelledStream& stream) {
  std::array<char, 16 << 10> buffer;
  for (;;) {
    const ssize_t some = ::read(from, buffer.data(), buffer.size());
    if (some > 0) {
      stream.add({buffer.data(), static_cast<size_t>(some)});
    } else if (some == 0 || (errno != EINTR && errno != EAGAIN)) {
      return false;
    } else if (errno == EAGAIN) {
      return true;
    }
  }
}

}  // namespace tutti::run
