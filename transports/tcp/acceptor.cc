#include "transports/tcp/acceptor.h"

#include <sys/epoll.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "base/network_interface.h"

namespace tutti::tcp {
namespace {

constexpr int kEventsPerPoll = 32;
constexpr int kAcceptsPerPoll = 256;  // a flood of connections must not keep this rank from its work

bool add_to(int epoll, int fd, void* who) {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = who}};
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

// accept(2) also returns what went wrong with a connection before it was accepted.
bool concerns_one_connection(int error_number) {
  switch (error_number) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENOPROTOOPT:
    case ENONET:
      return true;
    default:
      return false;
  }
}

void note_drop(const std::string& from, std::string_view why) {
  log(LogLevel::trace, Subsystem::net, -1, "tcp: dropped a connection from {}: {}", from, why);
}

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::create(const sockaddr_storage& address, PortRange ports,
                                                   const ConnectionSettings& settings, std::vector<std::byte> key) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(settings, std::move(key)));
  if (::getrandom(acceptor->cookie_.data(), kCookieBytes, 0) != static_cast<ssize_t>(kCookieBytes)) {
    return system_error("getrandom", errno);
  }
  Result<Listener> listener = listen_tcp(address, ports);
  if (!listener.ok() && errno == EMFILE) return socket_error("socket", EMFILE, settings.descriptors_wanted);
  TUTTI_TRY(listener.status());
  acceptor->listener_ = std::move(*listener);
  acceptor->epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!acceptor->epoll_) return socket_error("epoll_create1", errno, settings.descriptors_wanted);
  if (!add_to(acceptor->epoll_.get(), acceptor->listener_.fd.get(), nullptr)) return system_error("epoll_ctl", errno);
  return acceptor;
}

void Acceptor::listen_also(const sockaddr_storage& address, PortRange ports) {
  Result<Listener> listener = listen_tcp(address, ports);
  if (!listener.ok()) return;
  auto added = std::make_unique<Listener>(std::move(*listener));
  if (add_to(epoll_.get(), added->fd.get(), added.get())) further_.push_back(std::move(added));
}

std::vector<sockaddr_storage> Acceptor::further_addresses() const {
  std::vector<sockaddr_storage> addresses;
  for (const auto& listener : further_) addresses.push_back(listener->address);
  return addresses;
}

Status Acceptor::poll(std::vector<Guest>& guests) {
  std::array<epoll_event, kEventsPerPoll> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerPoll, 0);
  if (count < 0 && errno != EINTR) return system_error("epoll_wait", errno);
  size_t freed = 0;
  for (int i = 0; i < count; ++i) {
    if (events[i].data.ptr == nullptr) {
      TUTTI_TRY(accept_all(listener_.fd.get(), guests));
      continue;
    }
    const auto further = std::ranges::find(further_, events[i].data.ptr,
                                           [](const auto& each) { return static_cast<void*>(each.get()); });
    if (further != further_.end()) {
      TUTTI_TRY(accept_all((*further)->fd.get(), guests));
      continue;
    }
    auto* const pending = static_cast<Pending*>(events[i].data.ptr);
    Hello hello;
    const Reading reading = read_hello(*pending, hello);
    if (reading == Reading::more) continue;
    if (reading == Reading::guest) {
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, pending->fd.get(), nullptr);
      admit(*pending, hello, guests);
    }
    freed += std::erase_if(pending_, [&](const auto& each) { return each.get() == pending; });
  }
  if (!pending_.empty()) freed += expire();
  if (!listener_watched_ && freed > 0) watch_listener(true);
  return Status::success();
}

Status Acceptor::accept_all(int listener, std::vector<Guest>& guests) {
  for (int i = 0; i < kAcceptsPerPoll && pending_.size() < kMaxPending; ++i) {
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    Fd fd(::accept4(listener, reinterpret_cast<sockaddr*>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      const int error = errno;
      if (error == EAGAIN) return Status::success();
      if (concerns_one_connection(error)) continue;
      if (pending_.empty()) return socket_error("accept4", error, settings_.descriptors_wanted);
      // Out of descriptors until a stranger's time is up.
      watch_listener(false);
      return Status::success();
    }
    auto pending = std::make_unique<Pending>();
    pending->fd = std::move(fd);
    pending->from = endpoint_text(from);
    // Nearly always the hello is already there.
    Hello hello;
    const Reading reading = read_hello(*pending, hello);
    if (reading == Reading::guest) admit(*pending, hello, guests);
    if (reading != Reading::more) continue;
    pending->since = steady_now();
    if (add_to(epoll_.get(), pending->fd.get(), pending.get())) pending_.push_back(std::move(pending));
  }
  // Full: the others wait in the kernel's queue, and must not wake anyone meanwhile.
  if (pending_.size() >= kMaxPending) watch_listener(false);
  return Status::success();
}

Acceptor::Reading Acceptor::read_hello(Pending& pending, Hello& hello) {
  const ssize_t got = ::recv(pending.fd.get(), pending.bytes.data() + pending.got, kHelloBytes - pending.got, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Reading::more;
  if (got <= 0) {
    note_drop(pending.from, "it ended before its hello was complete");
    return Reading::drop;
  }
  pending.got += static_cast<size_t>(got);
  if (pending.got < kHelloBytes) return Reading::more;
  const auto decoded = decode_hello(pending.bytes, key_, cookie_);
  if (!decoded || decoded->kind != Hello::Kind::call) {
    note_drop(pending.from, "its hello does not prove the communicator's key");
    return Reading::drop;
  }
  hello = *decoded;
  return Reading::guest;
}

void Acceptor::admit(Pending& pending, const Hello& hello, std::vector<Guest>& guests) {
  guests.push_back({hello, std::move(pending.fd), std::move(pending.from)});
}

size_t Acceptor::expire() {
  const Nanoseconds now = steady_now();
  return std::erase_if(pending_, [&](const auto& pending) {
    const bool late = now - pending->since >= settings_.options.hello_patience;
    if (late) note_drop(pending->from, "it did not say who it is in time");
    return late;
  });
}

void Acceptor::watch_listener(bool watch) {
  epoll_event event{.events = watch ? static_cast<uint32_t>(EPOLLIN) : 0u, .data = {.ptr = nullptr}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.fd.get(), &event);
  for (const auto& listener : further_) {
    event.data.ptr = listener.get();
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener->fd.get(), &event);
  }
  listener_watched_ = watch;
}

}  // namespace tutti::tcp
