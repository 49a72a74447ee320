#include "tutti/run.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "base/clock.h"
#include "tutti/child.h"
#include "tutti/labels.h"

namespace tutti::run {
namespace {

constexpr std::array kForwarded = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP, SIGWINCH};

bool asks_for_the_end(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string end_in_words(const Child& child) {
  return child.killed_by != 0 ? "was killed by " + signal_name(child.killed_by)
                              : fmt::format("ended with exit status {}", child.exit_status);
}

// Tells this run's rendezvous from every other's on the host.
Result<std::string> random_job_id() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return system_error("getrandom", errno);
  std::string id = "tutti-run-";
  for (const unsigned char byte : bytes) id += fmt::format("{:02x}", byte);
  return id;
}

// Replaces the entry of the same name, or adds one.
void set(std::vector<std::string>& environment, const std::string& entry) {
  const std::string name = entry.substr(0, entry.find('=') + 1);
  for (std::string& other : environment) {
    if (!other.starts_with(name)) continue;
    other = entry;
    return;
  }
  environment.push_back(entry);
}

bool has(const std::vector<std::string>& environment, std::string_view name_and_equals) {
  return std::any_of(environment.begin(), environment.end(),
                     [&](const std::string& entry) { return entry.starts_with(name_and_equals); });
}

// Of the last that is set; empty where none is.
std::string value_of(const std::vector<std::string>& environment, std::string_view name_and_equals) {
  std::string value;
  for (const std::string& entry : environment)
    if (entry.starts_with(name_and_equals)) value = entry.substr(name_and_equals.size());
  return value;
}

class Launcher {
 public:
  explicit Launcher(const Spec& spec) : spec_(spec) {}
  ~Launcher() { finish(); }

  Result<int> run() {
    TUTTI_TRY_ASSIGN(file_, find_program(spec_.command[0]));
    TUTTI_TRY(make_environment());
    TUTTI_TRY(listen_to_signals());
    for (int rank = 0; rank < spec_.nranks; ++rank) TUTTI_TRY(start(rank));
    while (running() > 0) wait_once();
    const int status = first_failure_ < 0 ? 0 : children_[static_cast<size_t>(first_failure_)].exit_status;
    finish();
    return status;
  }

 private:
  Status make_environment();
  Status listen_to_signals();
  Status start(int rank);
  size_t running() const {
    return static_cast<size_t>(
        std::count_if(children_.begin(), children_.end(), [](const Child& c) { return c.running; }));
  }

  void wait_once();
  void read_signals();
  void forward(int signal);
  void notice_ends();
  void failed(int rank);
  void begin_end(Nanoseconds after);
  void escalate();
  void signal_groups(int signal, bool only_running);
  void drain();
  void finish();

  const Spec& spec_;
  std::string file_;
  std::vector<std::string> environment_;
  Fd signals_;
  std::vector<Child> children_;
  std::vector<LabelledStream> outs_, errs_;
  int first_failure_ = -1;
  int asked_by_ = 0;          // the signal that asked for the end
  Nanoseconds deadline_ = 0;  // 0: none
  bool terminated_ = false;   // SIGTERM has been sent
};

Status Launcher::make_environment() {
  for (char** entry = environ; *entry != nullptr; ++entry) environment_.emplace_back(*entry);
  set(environment_, fmt::format("WORLD_SIZE={}", spec_.nranks));
  set(environment_, fmt::format("LOCAL_WORLD_SIZE={}", spec_.nranks));
  set(environment_, "MASTER_ADDR=127.0.0.1");
  if (!has(spec_.environment, "MASTER_PORT=")) {
    TUTTI_TRY_ASSIGN(const LocalMeeting meeting, local_meeting(value_of(spec_.environment, "MASTER_ADDR=")));
    set(environment_, "MASTER_ADDR=" + meeting.host);
    set(environment_, fmt::format("MASTER_PORT={}", meeting.port));
  }
  if (!has(environment_, "TUTTI_JOB_ID=")) {
    TUTTI_TRY_ASSIGN(const std::string id, random_job_id());
    set(environment_, "TUTTI_JOB_ID=" + id);
  }
  for (const std::string& entry : spec_.environment) set(environment_, entry);
  return {};
}

Status Launcher::listen_to_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int signal : kForwarded) sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return system_error("signalfd", errno);
  // Orphans of ranks come to this process, so that it can reap them and none outlives it as a zombie of init.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  return {};
}

Status Launcher::start(int rank) {
  ChildSpec child{file_, spec_.command, environment_, spec_.label, rank == 0 && ::isatty(STDIN_FILENO) == 0};
  set(child.environment, fmt::format("RANK={}", rank));
  set(child.environment, fmt::format("LOCAL_RANK={}", rank));
  for (const std::string& entry : spec_.environment) set(child.environment, entry);
  TUTTI_TRY_ASSIGN(Child started, start_child(child));
  children_.push_back(std::move(started));
  outs_.emplace_back(rank, STDOUT_FILENO);
  errs_.emplace_back(rank, STDERR_FILENO);
  return {};
}

void Launcher::wait_once() {
  std::vector<pollfd> sources = {{signals_.get(), POLLIN, 0}};
  for (const Child& child : children_)
    for (const Fd* end : {&child.out, &child.err})
      if (*end) sources.push_back({end->get(), POLLIN, 0});
  int timeout_ms = -1;
  if (deadline_ != 0) {
    const Nanoseconds now = steady_now();
    timeout_ms = now >= deadline_ ? 0 : static_cast<int>((deadline_ - now) / kMillisecond) + 1;
  }
  const int ready = ::poll(sources.data(), sources.size(), timeout_ms);
  if (ready > 0) {
    // Output first: what a rank said before it died should stand before the sentence about its death.
    drain();
    read_signals();
  }
  if (deadline_ != 0 && steady_now() >= deadline_) escalate();
}

void Launcher::drain() {
  for (size_t r = 0; r < children_.size(); ++r) {
    Child& child = children_[r];
    for (const auto& [end, stream] : {std::pair{&child.out, &outs_[r]}, {&child.err, &errs_[r]}}) {
      if (!*end || pump(end->get(), *stream)) continue;
      stream->finish();
      end->reset();
    }
  }
}

void Launcher::read_signals() {
  signalfd_siginfo news;
  while (::read(signals_.get(), &news, sizeof(news)) == sizeof(news)) {
    const auto signal = static_cast<int>(news.ssi_signo);
    if (signal == SIGCHLD) {
      notice_ends();
    } else {
      forward(signal);
    }
  }
}

void Launcher::forward(int signal) {
  signal_groups(signal, true);
  if (signal == SIGTSTP) ::raise(SIGSTOP);
  if (!asks_for_the_end(signal)) return;
  if (asked_by_ == 0) asked_by_ = signal;
  begin_end(static_cast<Nanoseconds>(spec_.grace_ms) * kMillisecond);
}

// A process that has ended is only looked at here and reaped in finish(): until then its id, which is also that of its
// group, cannot become another process's.
void Launcher::notice_ends() {
  std::vector<int> failures;
  for (size_t r = 0; r < children_.size(); ++r) {
    Child& child = children_[r];
    siginfo_t end{};
    if (!child.running || ::waitid(P_PID, static_cast<id_t>(child.pid), &end, WEXITED | WNOHANG | WNOWAIT) != 0)
      continue;
    if (end.si_pid == 0) continue;
    child.running = false;
    child.killed_by = end.si_code == CLD_EXITED ? 0 : end.si_status;
    child.exit_status = end.si_code == CLD_EXITED ? end.si_status : kKilled + end.si_status;
    if (child.exit_status != 0) failures.push_back(static_cast<int>(r));
  }
  // Several may have ended since the last look. Then a rank that was killed is the likelier cause than one that ended
  // with an error, which may be its answer to the loss of the other.
  if (failures.empty() || first_failure_ >= 0) return;
  const auto killed = [&](int r) { return children_[static_cast<size_t>(r)].killed_by != 0; };
  std::stable_sort(failures.begin(), failures.end(),
                   [&](int a, int b) { return killed(a) != killed(b) ? killed(a) : a < b; });
  failed(failures.front());
}

void Launcher::failed(int rank) {
  first_failure_ = rank;
  drain();
  const Child& child = children_[static_cast<size_t>(rank)];
  if (asked_by_ != 0) {
    fmt::print(stderr, "tutti run: ended by {}\n", signal_name(asked_by_));
  } else {
    const std::string rest = running() == 0 ? ""
                                            : fmt::format("; it was the first to fail, the others have {:g} s to end",
                                                          spec_.grace_ms / 1000.0);
    fmt::print(stderr, "tutti run: rank {} (pid {}) {}{}\n", rank, child.pid, end_in_words(child), rest);
  }
  std::fflush(stderr);
  begin_end(static_cast<Nanoseconds>(spec_.grace_ms) * kMillisecond);
}

void Launcher::begin_end(Nanoseconds after) {
  if (deadline_ == 0) deadline_ = steady_now() + after;
}

void Launcher::escalate() {
  notice_ends();
  if (running() == 0) return;  // the last has ended since poll() looked
  const int signal = terminated_ ? SIGKILL : SIGTERM;
  std::string who;
  for (size_t r = 0; r < children_.size(); ++r)
    if (children_[r].running) who += fmt::format(" {}", r);
  fmt::print(stderr, "tutti run: sending {} to rank{}, still running\n", signal_name(signal), who);
  std::fflush(stderr);
  signal_groups(signal, true);
  signal_groups(SIGCONT, true);  // a stopped process cannot answer SIGTERM
  terminated_ = true;
  deadline_ =
      steady_now() + std::max<Nanoseconds>(static_cast<Nanoseconds>(spec_.grace_ms) * kMillisecond, kMillisecond);
}

void Launcher::signal_groups(int signal, bool only_running) {
  for (const Child& child : children_)
    if (child.running || !only_running) ::kill(-child.pid, signal);
}

// What ranks have left running in their groups ends with them; then all are reaped, also orphans that came here.
void Launcher::finish() {
  signal_groups(SIGKILL, false);
  drain();
  for (LabelledStream& stream : outs_) stream.finish();
  for (LabelledStream& stream : errs_) stream.finish();
  for (const Child& child : children_)
    while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) continue;
  children_.clear();
  while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
}

}  // namespace

Result<int> run_ranks(const Spec& spec) { return Launcher(spec).run(); }

}  // namespace tutti::run
