#include "perf/report_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>

namespace tutti::perf {
namespace {

// The descriptor that a name such as /dev/stdout or /dev/fd/63 stands for. Opened by that name, a file that standard
// output goes to would be written from its beginning, over the table; and a socket could not be opened at all.
std::optional<int> named_descriptor(std::string_view path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    int descriptor = -1;
    const auto [end, error] = std::from_chars(path.data() + folder.size(), path.data() + path.size(), descriptor);
    if (error == std::errc() && end == path.data() + path.size() && descriptor >= 0) return descriptor;
  }
  return std::nullopt;
}

Status cannot_write(const std::string& path, int why, std::string_view advice) {
  return system_error("--output_file " + path, why, advice);
}

Result<ReportFile> share_descriptor(const std::string& path, int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  const int error_number = flags < 0 ? errno : (flags & O_ACCMODE) == O_RDONLY ? EBADF : 0;
  if (error_number != 0) return cannot_write(path, error_number, "this program was not given it to write to");
  ReportFile file{path, Fd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)), false};
  if (!file.descriptor) return cannot_write(path, errno, "raise the limit on open files (ulimit -n)");
  return file;
}

// A device or a pipe, which is no file that could be overwritten. A pipe waits for its reader.
Result<ReportFile> open_existing(const std::string& path) {
  ReportFile file{path, Fd(::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC)), false};
  if (!file.descriptor) return cannot_write(path, errno, "give a file in a folder that you may write");
  return file;
}

}  // namespace

Result<ReportFile> claim_report_file(const std::string& path) {
  constexpr int kMostSuffixes = 10000;
  if (const std::optional<int> descriptor = named_descriptor(path)) return share_descriptor(path, *descriptor);
  std::string name = path;
  for (int suffix = 0; suffix <= kMostSuffixes; ++suffix) {
    ReportFile file{name, Fd(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)), true};
    if (file.descriptor) return file;
    if (errno != EEXIST) return cannot_write(name, errno, "give a file in a folder that you may write");
    struct stat status {};
    if (suffix == 0 && ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
      if (S_ISDIR(status.st_mode)) return cannot_write(path, EISDIR, "name a file in that folder");
      return open_existing(path);
    }
    name = path + "." + std::to_string(suffix);
  }
  return invalid_argument("--output_file {}: it and {} more exist already; remove some", path, kMostSuffixes);
}

Status write_report(const ReportFile& file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t some = ::write(file.descriptor.get(), text.data(), text.size());
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return cannot_write(file.path, errno, "the report is not complete");
    text.remove_prefix(static_cast<size_t>(some));
  }
  return {};
}

void withdraw(const ReportFile& file) {
  if (file.created) ::unlink(file.path.c_str());
}

}  // namespace tutti::perf
