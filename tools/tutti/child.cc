#include "tutti/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace tutti::run {
namespace {

constexpr int kExitLost = 126;

struct Pipe {
  Fd read, write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return system_error("pipe", errno, "raise the limit on open files (ulimit -n)");
  Pipe pipe;
  pipe.read.reset(ends[0]);
  pipe.write.reset(ends[1]);
  return pipe;
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// What the child does between fork and exec; only calls that are safe there.
[[noreturn]] void become(const ChildSpec& spec, char* const* argv, char* const* envp, pid_t launcher, const Pipe& out,
                         const Pipe& err, int failure) {
  ::setpgid(0, 0);
  // A launcher that dies by SIGKILL cannot end its ranks; the kernel does. It may have died before this line.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(kExitLost);
  if (!spec.keep_stdin) {
    const int null = ::open("/dev/null", O_RDONLY);
    if (null >= 0) ::dup2(null, STDIN_FILENO);
    if (null > STDERR_FILENO) ::close(null);
  }
  if (spec.take_output) {
    ::dup2(out.write.get(), STDOUT_FILENO);
    ::dup2(err.write.get(), STDERR_FILENO);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(spec.file.c_str(), argv, envp);
  const int why = errno;
  (void)!::write(failure, &why, sizeof(why));
  ::_exit(kExitLost);
}

}  // namespace

Result<Child> start_child(const ChildSpec& spec) {
  TUTTI_TRY_ASSIGN(Pipe failure, make_pipe());
  Pipe out, err;
  if (spec.take_output) {
    TUTTI_TRY_ASSIGN(out, make_pipe());
    TUTTI_TRY_ASSIGN(err, make_pipe());
  }
  const std::vector<char*> argv = pointers_to(spec.arguments), envp = pointers_to(spec.environment);
  const pid_t launcher = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return system_error("fork", errno, "raise the limit on processes (ulimit -u)");
  if (pid == 0) become(spec, argv.data(), envp.data(), launcher, out, err, failure.write.get());
  ::setpgid(pid, pid);  // whichever of the two comes first; the other one fails harmlessly
  failure.write.reset();
  int why = 0;
  ssize_t bytes = 0;
  while ((bytes = ::read(failure.read.get(), &why, sizeof(why))) < 0 && errno == EINTR) continue;
  if (bytes == sizeof(why)) {
    ::waitpid(pid, nullptr, 0);
    const bool is_there = ::access(spec.file.c_str(), X_OK) == 0;
    return system_error("execute " + spec.file, why,
                        why == ENOENT && is_there ? "the interpreter that it asks for is missing (see its first line)" : "");
  }
  Child child;
  child.pid = pid;
  child.running = true;
  child.out = std::move(out.read);
  child.err = std::move(err.read);
  for (const Fd* end : {&child.out, &child.err})
    if (*end) ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  return child;
}

}  // namespace tutti::run
