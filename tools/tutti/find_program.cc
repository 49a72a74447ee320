#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "tutti/run.h"

namespace tutti::run {
namespace {

bool is_file(const std::string& path) {
  struct stat what {};
  return ::stat(path.c_str(), &what) == 0 && S_ISREG(what.st_mode);
}

Status not_executable(const std::string& path) {
  return invalid_usage("'{}' may not be executed; is it a program, and is its x permission set?", path);
}

}  // namespace

Result<std::string> find_program(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    if (!is_file(program)) return invalid_argument("there is no program '{}'", program);
    if (::access(program.c_str(), X_OK) != 0) return not_executable(program);
    return program;
  }
  const char* path = std::getenv("PATH");
  const std::string folders = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  std::string found_but_not_executable;
  for (size_t start = 0; start <= folders.size();) {
    const size_t end = std::min(folders.find(':', start), folders.size());
    const std::string folder = end > start ? folders.substr(start, end - start) : ".";
    const std::string file = folder + "/" + program;
    if (is_file(file)) {
      if (::access(file.c_str(), X_OK) == 0) return file;
      found_but_not_executable = file;
    }
    start = end + 1;
  }
  if (!found_but_not_executable.empty()) return not_executable(found_but_not_executable);
  return invalid_argument("there is no program '{}' in PATH; for one in this folder write ./{}", program, program);
}

}  // namespace tutti::run
