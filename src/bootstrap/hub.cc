#include "bootstrap/hub.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/host.h"
#include "base/log.h"

namespace tutti {
namespace {

// A rank answers the greeting within a round trip and a scheduling delay; 5 s is far more, also on a crowded host.
constexpr Nanoseconds kStrangerPatience = 5 * kSecond;
// What a peer with a large queue gets to read the last frames: when it is refused, and when the hub goes.
constexpr Nanoseconds kClosingPatience = kSecond;
// Connections that have proved nothing. More wait in the listen queue, so strangers cannot use up the descriptors, and
// 1000 ranks that arrive at once are served in waves.
constexpr size_t kMaxStrangers = 256;
constexpr Nanoseconds kAcceptPause = 100 * kMillisecond;
constexpr Nanoseconds kNever = ~Nanoseconds{0};

rlim_t descriptor_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

Status descriptor_advice(uint64_t needed) {
  return fail(tuttiSystemError,
              "the process that holds the meeting point (host {}, pid {}) may open {} files (RLIMIT_NOFILE), but needs "
              "about {} for a connection to every rank; raise the limit there, for example with `ulimit -n {}`",
              host_name(), ::getpid(), descriptor_limit(), needed, needed + 64);
}

}  // namespace

HubThread::HubThread(Listener listener, Fd wake, MeetingPoint point)
    : listener_(std::move(listener)), wake_(std::move(wake)), point_(std::move(point)), host_(host_name()) {}

Status HubThread::start() {
  // Signals are the application's: the hub's thread inherits a mask that blocks them all.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    status =
        system_error("cannot start the rendezvous thread", error.code().value(), "is the limit of processes reached?");
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

HubThread::~HubThread() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  // Can neither fail nor block: the counter goes from 0 to 1.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  thread_.join();
}

void HubThread::run() {
  try {
    serve_until_told();
  } catch (const std::bad_alloc&) {
    // All that takes no memory: who loses the hub ends with an error.
    peers_.clear();
  }
}

void HubThread::serve_until_told() {
  std::vector<pollfd> descriptors;
  for (;;) {
    collect_descriptors(descriptors);
    const int ready = ::poll(descriptors.data(), descriptors.size(), wait_ms(steady_now()));
    const Nanoseconds now = steady_now();
    if (ready > 0) {
      if (descriptors[0].revents != 0) break;
      size_t i = 2;
      // Peers are only removed below and added by accept_some, so the order is that of the descriptors.
      for (Peer& peer : peers_) {
        if ((descriptors[i].revents & POLLOUT) != 0) peer.connection.flush();
        if ((descriptors[i].revents & ~POLLOUT) != 0) serve(peer, now);
        ++i;
      }
      if (descriptors[1].revents != 0) accept_some(now);
    }
    check_deadlines(now);
    remove_ended();
    if (formed_ && roster_.all_left()) finished_.store(true, std::memory_order_relaxed);
  }
  say_goodbye();
}

int HubThread::wait_ms(Nanoseconds now) const {
  Nanoseconds until = failure_ ? kNever : std::min(roster_.deadline(), roster_.exchange_deadline());
  for (const Peer& peer : peers_) {
    if (peer.phase == Phase::stranger) until = std::min(until, peer.since + kStrangerPatience);
    if (peer.phase == Phase::closing) until = std::min(until, peer.since + kClosingPatience);
  }
  if (accept_again_at_ > now) until = std::min(until, accept_again_at_);
  if (until == kNever) return -1;
  if (until <= now) return 0;
  // Rounded up, or the last millisecond would be spent polling; a day at most, since poll takes an int.
  return static_cast<int>(std::min((until - now) / kMillisecond + 1, Nanoseconds{86'400'000}));
}

void HubThread::collect_descriptors(std::vector<pollfd>& descriptors) const {
  descriptors.clear();
  descriptors.push_back({wake_.get(), POLLIN, 0});
  const bool accepting = strangers_ < kMaxStrangers && steady_now() >= accept_again_at_;
  descriptors.push_back({accepting ? listener_.fd.get() : -1, POLLIN, 0});
  for (const Peer& peer : peers_) {
    const short wanted = static_cast<short>(POLLIN | (peer.connection.has_unsent() ? POLLOUT : 0));
    descriptors.push_back({peer.connection.descriptor(), wanted, 0});
  }
}

void HubThread::check_deadlines(Nanoseconds now) {
  if (!failure_ && now >= roster_.deadline()) fail_all(roster_.missing(now));
  if (!failure_ && now >= roster_.exchange_deadline()) fail_all(roster_.exchange_missing(now));
  for (Peer& peer : peers_) {
    if (peer.phase == Phase::stranger && now >= peer.since + kStrangerPatience) peer.ended = true;
    if (peer.phase != Phase::closing) continue;
    if (!peer.connection.has_unsent() || now >= peer.since + kClosingPatience) {
      peer.connection.finish_sending();
      peer.ended = true;
    }
  }
}

void HubThread::remove_ended() {
  std::erase_if(peers_, [](const Peer& peer) { return peer.ended; });
  strangers_ = static_cast<size_t>(
      std::count_if(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.phase == Phase::stranger; }));
}

// ---- arrivals ----

void HubThread::accept_some(Nanoseconds now) {
  while (strangers_ < kMaxStrangers) {
    Fd fd(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      greet(std::move(fd), now);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      const int error_number = errno;
      // The connection stays in the listen queue and poll would report it again at once.
      accept_again_at_ = now + kAcceptPause;
      out_of_descriptors(error_number);
    }
    return;
  }
}

void HubThread::out_of_descriptors(int error_number) {
  // Strangers go by themselves; only when ranks alone use up the descriptors will waiting not help.
  if (strangers_ > 0 || failure_ || formed_) return;
  if (error_number == EMFILE)
    fail_all(descriptor_advice(roster_.nranks() + 64));
  else
    fail_all(system_error("the meeting point cannot accept connections", error_number));
}

Status HubThread::check_descriptor_limit(uint32_t nranks) const {
  std::error_code ignored;
  uint64_t open = 0;
  for (auto it = std::filesystem::directory_iterator("/proc/self/fd", ignored); !ignored && it != end(it);
       it.increment(ignored))
    ++open;
  // Those open now include the connections that are here already.
  const uint64_t needed = open + nranks - std::min<uint64_t>(nranks, peers_.size());
  return needed > descriptor_limit() ? descriptor_advice(needed) : Status();
}

void HubThread::greet(Fd fd, Nanoseconds now) {
  Result<Secret> nonce = random_secret();
  if (!nonce.ok()) return;
  Peer& peer = peers_.emplace_back(std::move(fd), now);
  ++strangers_;
  wire::Greeting greeting;
  greeting.nonce = nonce.value();
  peer.greeting = wire::encode(greeting);
  peer.connection.send(wire::frame(wire::Type::greeting, peer.greeting));
}

Status HubThread::handle_hello(Peer& peer, wire::View payload, Nanoseconds now) {
  const std::optional<wire::Hello> hello = wire::decode_hello(payload);
  if (!hello || hello->format != wire::kFormat) return fail(tuttiRemoteError, "not a hello");
  TUTTI_TRY_ASSIGN(const bool proved, wire::proves_key(payload, point_.key, peer.greeting));
  if (!proved) {
    refuse(peer,
           invalid_argument("the meeting point at {}:{} does not accept this rank's key: the unique id (or, with a "
                            "launcher, the job or the contents of TUTTI_SECRET_FILE) is not the one it was made with",
                            point_.host, point_.port));
    return {};
  }
  if (formed_) {
    // A group at work is not disturbed by a latecomer, who may belong to a later one of the same launcher.
    const bool taken = hello->self.rank < roster_.nranks();
    refuse(peer, invalid_usage("{} came to {}:{}, where the group of {} ranks is complete already{}{}",
                               describe(hello->self), point_.host, point_.port, roster_.nranks(),
                               taken ? ", with " : "", taken ? describe(roster_.member(hello->self.rank)) : ""));
    return {};
  }
  TUTTI_TRY_ASSIGN(const wire::Bytes welcome,
                   wire::encode(wire::Welcome{host_, ::getpid()}, point_.key, peer.greeting, payload));
  peer.connection.send(wire::frame(wire::Type::welcome, welcome));
  peer.connection.set_max_payload_bytes(wire::kMaxFromRankBytes);
  seat(peer, *hello, now);
  return {};
}

void HubThread::seat(Peer& peer, const wire::Hello& hello, Nanoseconds now) {
  peer.phase = Phase::guest;
  peer.since = now;
  peer.rank = hello.self.rank;
  if (failure_) {
    peer.connection.send(wire::frame(wire::Type::failure, wire::encode(*failure_)));
    return;
  }
  Status status = roster_.arrive(hello.self, now, hello.timeout);
  if (status.ok()) {
    peer.phase = Phase::member;
    if (roster_.members().size() == 1) status = check_descriptor_limit(roster_.nranks());
  }
  if (!status.ok()) return fail_all(status);
  if (!roster_.complete()) return;
  formed_ = true;
  const std::vector<Introduction> members = roster_.members();
  log(LogLevel::info, Subsystem::bootstrap, -1, "all {} ranks have come to {}:{}", members.size(), point_.host,
      point_.port);
  send_to_members(wire::frame(wire::Type::group, wire::encode(std::span<const Introduction>(members))));
}

// ---- ranks at work ----

void HubThread::serve(Peer& peer, Nanoseconds now) {
  const Connection::State state = peer.connection.receive();
  for (;;) {
    Result<std::optional<wire::Frame>> frame = peer.connection.next_frame();
    Status status = frame.status();
    if (status.ok() && !frame.value()) break;
    if (status.ok() && peer.phase == Phase::closing) continue;
    if (status.ok()) status = handle_frame(peer, *frame.value(), now);
    if (status.ok()) continue;
    if (peer.phase == Phase::member && !failure_ && !roster_.has_left(peer.rank))
      fail_all(status.within(describe(roster_.member(peer.rank))));
    peer.ended = true;
    return;
  }
  if (state == Connection::State::ended) handle_end(peer);
}

Status HubThread::handle_frame(Peer& peer, const wire::Frame& frame, Nanoseconds now) {
  if (peer.phase == Phase::member) return handle_member_frame(peer, frame, now);
  if (peer.phase == Phase::guest) return {};  // has been told why it is not one of us; what it still says is of no use
  if (frame.type != wire::Type::hello) return fail(tuttiRemoteError, "spoke before it introduced itself");
  return handle_hello(peer, frame.payload, now);
}

Status HubThread::handle_member_frame(Peer& peer, const wire::Frame& frame, Nanoseconds now) {
  const Status malformed = fail(tuttiInternalError, "sent a malformed message to the meeting point");
  switch (frame.type) {
    case wire::Type::contribution: {
      const std::optional<wire::Contribution> part = wire::decode_contribution(frame.payload);
      if (!part || !formed_) return malformed;
      if (failure_) return {};  // it has been told, so it does not wait for an answer
      if (const Status status = roster_.contribute(peer.rank, *part, now); !status.ok())
        fail_all(status);
      else if (const auto result = roster_.take_exchange())
        send_to_members(wire::frame(wire::Type::exchange_result, wire::encode(*result)));
      return {};
    }
    case wire::Type::failure_report: {
      const std::optional<Status> status = wire::decode_status(frame.payload);
      if (!status) return malformed;
      // Wrong use and time-outs concern the group as such; anything else is, to the others, a failed peer.
      const bool timeout = status->code() == tuttiTimeout, common = timeout || status->code() == tuttiInvalidUsage;
      const std::string reporter = describe(roster_.member(peer.rank));
      fail_all(fail(common ? status->code() : tuttiRemoteError, "{}{}{}{}", reporter,
                    // Where it speaks of itself, once is enough.
                    status->message().starts_with(reporter) ? "" : ": ",
                    status->message().substr(status->message().starts_with(reporter) ? reporter.size() : 0),
                    timeout ? roster_.behind_wait_of(peer.rank) : ""));
      return {};
    }
    case wire::Type::wait: {
      std::optional<LongWait> wait = wire::decode_wait(frame.payload);
      if (!wait) return malformed;
      hear_wait(peer, *std::move(wait));
      return {};
    }
    case wire::Type::moving:
      roster_.moving(peer.rank);
      return {};
    case wire::Type::leaving: {
      const std::optional<std::vector<Call>> calls = wire::decode_calls(frame.payload);
      if (!calls) return malformed;
      leave(peer, *calls);
      return {};
    }
    default:
      return malformed;
  }
}

void HubThread::hear_wait(Peer& peer, LongWait wait) {
  const Status status = roster_.compare(peer.rank, wait.calls);
  roster_.wait(peer.rank, std::move(wait));
  if (!status.ok()) return fail_all(status);
  peer.connection.send(wire::frame(wire::Type::heard));
}

void HubThread::leave(Peer& peer, const std::vector<Call>& calls) {
  if (roster_.has_left(peer.rank)) return;
  if (!formed_)
    return fail_all(fail(tuttiRemoteError, "{} left before all ranks had come", describe(roster_.member(peer.rank))));
  roster_.moving(peer.rank);
  if (const Status status = roster_.compare(peer.rank, calls); !status.ok() && !failure_) {
    // The one who leaves hears no more, nor may anybody else.
    log(LogLevel::warn, Subsystem::bootstrap, static_cast<int>(peer.rank), "{}", status.message());
    fail_all(status);
  }
  const Status status = roster_.leave(peer.rank);
  send_to_members(wire::frame(wire::Type::departed, wire::encode_rank(peer.rank)), &peer);
  if (!status.ok()) fail_all(status);
}

void HubThread::handle_end(Peer& peer) {
  peer.ended = true;
  if (peer.phase != Phase::member || roster_.has_left(peer.rank)) return;
  const int reason = peer.connection.end_reason();
  const char* name = reason != 0 ? strerrorname_np(reason) : nullptr;
  // `ended` is set, so the dead rank is not told of its own death.
  fail_all(fail(tuttiRemoteError, "{} died or lost its connection{}{}{}", describe(roster_.member(peer.rank)),
                name ? " (" : "", name ? name : "", name ? ")" : ""));
  (void)roster_.leave(peer.rank);
}

void HubThread::refuse(Peer& peer, const Status& status) {
  peer.connection.send(wire::frame(wire::Type::refusal, wire::encode(status)));
  peer.phase = Phase::closing;
  peer.since = steady_now();
}

void HubThread::fail_all(const Status& status) {
  if (failure_) return;
  failure_ = status;
  log(LogLevel::info, Subsystem::bootstrap, -1, "telling all ranks: {}", status.message());
  send_to_members(wire::frame(wire::Type::failure, wire::encode(status)));
}

void HubThread::send_to_members(const wire::SharedFrame& frame, const Peer* except) {
  for (Peer& peer : peers_) {
    const bool authenticated = peer.phase == Phase::member || peer.phase == Phase::guest;
    if (authenticated && !peer.ended && &peer != except) peer.connection.send(frame);
  }
}

void HubThread::say_goodbye() {
  send_to_members(wire::frame(wire::Type::goodbye));
  const Nanoseconds until = steady_now() + kClosingPatience;
  auto unsent = [](const Peer& peer) { return peer.connection.has_unsent(); };
  while (std::any_of(peers_.begin(), peers_.end(), unsent) && steady_now() < until) {
    std::vector<pollfd> descriptors;
    for (const Peer& peer : peers_)
      if (unsent(peer)) descriptors.push_back({peer.connection.descriptor(), POLLOUT, 0});
    ::poll(descriptors.data(), descriptors.size(), 50);
    for (Peer& peer : peers_) peer.connection.flush();
  }
  for (Peer& peer : peers_) peer.connection.finish_sending();
}

// ---- making one ----

namespace {

// Where a launcher's hub listens. A name may resolve to 127.0.1.1 here and to the network address elsewhere (Debian's
// /etc/hosts does that), so anything but loopback means every address of this host.
Result<Listener> listen_at(const MeetingPoint& point, const Config& config) {
  const PortRange ports{point.port, static_cast<uint16_t>(std::min(point.port + point.port_count - 1, 65535))};
  const Result<sockaddr_storage> numeric = parse_address(point.host == "localhost" ? "127.0.0.1" : point.host, 0);
  if (numeric.ok()) {
    const std::string text = address_text(numeric.value());
    if (text.starts_with("127.") || text == "::1") return listen_tcp(numeric.value(), ports);
  }
  if (config.socket_family != AddressFamily::ipv4) {
    Result<Listener> both = listen_tcp(parse_address("::", 0).value(), ports);
    if (both.ok() || config.socket_family == AddressFamily::ipv6) return both;
  }
  return listen_tcp(parse_address("0.0.0.0", 0).value(), ports);
}

}  // namespace

Result<std::unique_ptr<Hub>> Hub::create(const Config& config, const MeetingPoint* fixed) {
  MeetingPoint point;
  Listener listener;
  if (fixed) {
    point = *fixed;
    Result<Listener> made = listen_at(point, config);
    if (!made.ok()) return made.status().within("the meeting point (MASTER_ADDR, MASTER_PORT)");
    listener = std::move(made).value();
    point.port_count = 1;
  } else {
    TUTTI_TRY_ASSIGN(const NetworkInterface chosen, choose_interface(config));
    TUTTI_TRY_ASSIGN(listener, listen_tcp(chosen.address, config.port_range));
    TUTTI_TRY_ASSIGN(point.key, random_secret());
    point.host = address_text(chosen.address);
    log(LogLevel::info, Subsystem::bootstrap, -1, "meeting point on {} of interface {}",
        endpoint_text(listener.address), chosen.name);
  }
  point.port = port_of(listener.address);
  Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return system_error("eventfd", errno);
  auto hub = std::make_unique<HubThread>(std::move(listener), std::move(wake), std::move(point));
  TUTTI_TRY(hub->start());
  return std::unique_ptr<Hub>(std::move(hub));
}

}  // namespace tutti
