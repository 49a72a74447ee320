#include "ranks.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "base/fd.h"

namespace tutti::conformance {
namespace {

bool write_all(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd, at, bytes);
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool read_all(int fd, void* data, size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::read(fd, at, bytes);
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool write_blob(int fd, const Bytes& blob) {
  const uint32_t bytes = static_cast<uint32_t>(blob.size());
  return write_all(fd, &bytes, sizeof bytes) && write_all(fd, blob.data(), blob.size());
}

bool read_blob(int fd, Bytes& blob) {
  uint32_t bytes = 0;
  if (!read_all(fd, &bytes, sizeof bytes)) return false;
  blob.resize(bytes);
  return read_all(fd, blob.data(), bytes);
}

// The child's whole life.
bool live(const Provider& provider, uint32_t rank, uint32_t nranks, const Config& config, const Processes::Body& body,
          int pipe) {
  auto transport = provider.make_rank(context_of(rank, nranks, config));
  if (!transport.ok()) {
    fmt::print(stderr, "rank {}: {}\n", rank, transport.status().c_str());
    return false;
  }
  if (!write_blob(pipe, (*transport)->address())) return false;
  std::vector<Bytes> addresses(nranks);
  std::vector<std::string> descriptions;
  for (uint32_t r = 0; r < nranks; ++r) {
    if (!read_blob(pipe, addresses[r])) return false;
    descriptions.push_back(describe(r));
  }
  if (!(*transport)->set_peers(std::move(addresses), std::move(descriptions)).ok()) return false;
  return body(rank, **transport);
}

}  // namespace

bool sleep_until_news(Transport& transport) {
  std::vector<pollfd> descriptors;
  bool woken = true;
  if (transport.prepare_wait(descriptors)) woken = ::poll(descriptors.data(), descriptors.size(), 20'000) > 0;
  transport.finish_wait();
  return woken;
}

void run_threads(uint32_t nranks, const std::function<void(uint32_t)>& body) {
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < nranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
}

namespace {
// Asks until `ask` is done or has failed.
Status ask_sleeping(Transport& transport, uint64_t spins, const std::function<Result<bool>()>& ask) {
  for (uint64_t tries = 0;; ++tries) {
    TUTTI_TRY_ASSIGN(const bool done, ask());
    if (done) return {};
    TUTTI_TRY(transport.progress());
    if (tries < spins) continue;
    if (!sleep_until_news(transport)) return fail(tuttiTimeout, "slept for 20 s: a wake-up was lost");
    TUTTI_TRY(transport.check_peers());
  }
}
}  // namespace

Status send_sleeping(Transport& transport, Sender& sender, const Bytes& message, const Stamp& stamp, uint64_t spins) {
  return ask_sleeping(transport, spins, [&] { return sender.try_send(message, stamp); });
}

Result<Bytes> receive_sleeping(Transport& transport, Receiver& receiver, size_t bytes, const Stamp& stamp,
                               uint64_t spins) {
  Bytes message;
  TUTTI_TRY(ask_sleeping(transport, spins, [&]() -> Result<bool> {
    TUTTI_TRY_ASSIGN(auto got, receiver.try_receive(bytes, stamp));
    if (got) message = std::move(*got);
    return got.has_value();
  }));
  return message;
}

Processes::Processes(const Provider& provider, uint32_t nranks, const Config& config, const Body& body,
                     const std::function<void(uint32_t)>& before) {
  std::vector<Fd> pipes;
  for (uint32_t rank = 0; rank < nranks; ++rank) {
    int pair[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      pipes.clear();
      ::close(pair[0]);
      if (before) before(rank);
      // _exit: the child has no business with the parent's tests, buffers and exit handlers.
      ::_exit(live(provider, rank, nranks, config, body, pair[1]) ? 0 : 1);
    }
    ::close(pair[1]);
    pids_.push_back(pid);
    pipes.emplace_back(pair[0]);
  }
  std::vector<Bytes> addresses(nranks);
  for (uint32_t rank = 0; rank < nranks; ++rank) EXPECT_TRUE(read_blob(pipes[rank].get(), addresses[rank])) << rank;
  for (const Fd& pipe : pipes) {
    for (const Bytes& address : addresses) EXPECT_TRUE(write_blob(pipe.get(), address));
  }
}

Processes::~Processes() {
  for (uint32_t rank = 0; rank < pids_.size(); ++rank) {
    if (pids_[rank] <= 0) continue;
    kill(rank);
    ::waitpid(pids_[rank], nullptr, 0);
  }
}

void Processes::kill(uint32_t rank) { ::kill(pids_[rank], SIGKILL); }

bool Processes::succeeded(uint32_t rank) {
  int status = 0;
  const bool reaped = ::waitpid(std::exchange(pids_[rank], -1), &status, 0) > 0;
  return reaped && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace tutti::conformance
