#include "bootstrap/dial.h"

#include <netdb.h>
#include <poll.h>

#include <algorithm>
#include <variant>

namespace tutti {
namespace {

// Where there are several candidates, one that does not answer gets half a second at first and twice as much in every
// round: enough for a hub, soon over for a port that something else holds. The only candidate gets the most at once.
constexpr Nanoseconds kFirstPatience = 500 * kMillisecond;
constexpr Nanoseconds kMostPatience = 10 * kSecond;
constexpr Nanoseconds kFirstPause = 10 * kMillisecond;  // between rounds, doubling
constexpr Nanoseconds kMostPause = 500 * kMillisecond;
constexpr Nanoseconds kAbortInterval = 50 * kMillisecond;
// What will not change by itself is asked again for as long as a late start explains it: a name that is registered when
// its host comes up (Kubernetes), a hub of this job beside one of another.
constexpr Nanoseconds kRefusalPatience = 5 * kSecond;
constexpr Nanoseconds kUnknownNamePatience = 5 * kSecond;
constexpr Nanoseconds kNameServerPatience = 30 * kSecond;

// What an attempt that gave no Acquaintance says of the candidate.
enum class Finding : uint8_t {
  unclear,      // silence, or an answer that was cut short: a hub with much to do may be there
  nobody,       // nothing listens there, or nothing of Tutti
  no_key,       // a hub that does not know our key or talks another version: another job's, or ours is wrong
  turned_away,  // a hub of ours that takes no more ranks
  fatal,        // nothing to do with the candidate: asking others will not help
};
struct Failure {
  Status status;
  Finding finding = Finding::unclear;
  // By a hub that understood us, so asking it again will not help.
  bool refused() const { return finding == Finding::no_key || finding == Finding::turned_away; }
};
using Attempt = std::variant<Acquaintance, Failure>;

Failure silence(std::string_view what, const sockaddr_storage& address) {
  return {fail(tuttiTimeout, "{} did not {}", endpoint_text(address), what)};
}

Failure connect_failure(const sockaddr_storage& address, int error_number) {
  return {system_error(fmt::format("cannot connect to {}", endpoint_text(address)), error_number),
          error_number == ETIMEDOUT ? Finding::unclear : Finding::nobody};
}

std::variant<Fd, Failure> connect_to(const sockaddr_storage& address, Nanoseconds until,
                                     const std::atomic<bool>& abort) {
  Fd fd(::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) {
    const bool full = errno == EMFILE || errno == ENFILE;
    return Failure{system_error("cannot make a socket", errno,
                                full ? "this process may not open more files; raise `ulimit -n`" : ""),
                   full ? Finding::fatal : Finding::unclear};
  }
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes_of(address)) == 0) return fd;
  if (errno != EINPROGRESS && errno != EINTR) return connect_failure(address, errno);
  const Result<bool> ready = wait_for(fd.get(), POLLOUT, until, abort);
  if (!ready.ok()) return Failure{ready.status(), Finding::fatal};
  if (!ready.value()) return silence("answer", address);
  int error_number = 0;
  socklen_t bytes = sizeof error_number;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error_number, &bytes);
  if (error_number != 0) return connect_failure(address, error_number);
  return fd;
}

// The payload of the next frame, copied since more bytes may follow.
std::variant<std::pair<wire::Type, wire::Bytes>, Failure> next_frame(Connection& connection, Nanoseconds until,
                                                                     const sockaddr_storage& address,
                                                                     const std::atomic<bool>& abort) {
  // What came before the peer closed is still looked at.
  for (bool ended = false;;) {
    Result<std::optional<wire::Frame>> frame = connection.next_frame();
    if (!frame.ok()) return Failure{frame.status().within(endpoint_text(address)), Finding::nobody};
    if (const std::optional<wire::Frame>& found = frame.value())
      return std::pair(found->type, wire::Bytes(found->payload.begin(), found->payload.end()));
    if (ended) return Failure{fail(tuttiRemoteError, "{} closed the connection", endpoint_text(address))};
    const Result<bool> ready = wait_for(connection.descriptor(), POLLIN, until, abort);
    if (!ready.ok()) return Failure{ready.status(), Finding::fatal};
    if (!ready.value()) return silence("speak like a meeting point", address);
    ended = connection.receive() == Connection::State::ended;
  }
}

struct Dialler {
  const MeetingPoint& point;
  const Introduction& self;
  const Nanoseconds deadline;
  const std::atomic<bool>& abort;

  Attempt attempt(const sockaddr_storage& address, Nanoseconds patience) const {
    const Nanoseconds until = std::min(deadline, steady_now() + patience);
    auto connected = connect_to(address, until, abort);
    if (auto* failure = std::get_if<Failure>(&connected)) return std::move(*failure);
    Connection connection(std::get<Fd>(std::move(connected)), wire::kMaxHandshakeBytes);
    auto first = next_frame(connection, until, address, abort);
    if (auto* failure = std::get_if<Failure>(&first)) return std::move(*failure);
    const auto& [type, greeting_bytes] = std::get<0>(first);
    const std::optional<wire::Greeting> greeting = wire::decode_greeting(greeting_bytes);
    if (type != wire::Type::greeting || !greeting)
      return Failure{
          fail(tuttiRemoteError, "what listens at {} is not a meeting point of Tutti", endpoint_text(address)),
          Finding::nobody};
    if (greeting->format != wire::kFormat)
      return Failure{
          invalid_usage("the meeting point at {} runs Tutti version code {}, this rank {}, and they cannot talk; "
                        "use one version on all ranks",
                        endpoint_text(address), greeting->version, self.version),
          Finding::no_key};
    return introduce(std::move(connection), greeting_bytes, address);
  }

  // From here on the hub knows this rank, so there is no giving up before the deadline: a second attempt would look
  // like a second process with the same rank.
  Attempt introduce(Connection connection, const wire::Bytes& greeting, const sockaddr_storage& address) const {
    const Result<Secret> nonce = random_secret();
    if (!nonce.ok()) return Failure{nonce.status(), Finding::fatal};
    const Nanoseconds now = steady_now();
    const wire::Hello hello{wire::kFormat, nonce.value(), self, deadline > now ? deadline - now : 0};
    const Result<wire::Bytes> payload = wire::encode(hello, point.key, greeting);
    if (!payload.ok()) return Failure{payload.status(), Finding::fatal};
    connection.send(wire::frame(wire::Type::hello, payload.value()));
    // A refusal carries a sentence, so it may be longer than what strangers may say.
    connection.set_max_payload_bytes(wire::kMaxTextBytes + wire::kMaxHandshakeBytes);
    auto answer = next_frame(connection, deadline, address, abort);
    if (auto* failure = std::get_if<Failure>(&answer)) return std::move(*failure);
    const auto& [type, bytes] = std::get<0>(answer);
    if (type == wire::Type::refusal)
      if (std::optional<Status> status = wire::decode_status(bytes))
        return Failure{*status, status->code() == tuttiInvalidArgument ? Finding::no_key : Finding::turned_away};
    Result<std::optional<wire::Welcome>> welcome =
        type == wire::Type::welcome ? wire::decode_welcome(bytes, point.key, greeting, payload.value())
                                    : Result<std::optional<wire::Welcome>>(std::optional<wire::Welcome>());
    if (!welcome.ok()) return Failure{welcome.status(), Finding::fatal};
    if (!welcome.value())
      return Failure{
          invalid_argument("what listens at {} does not know the key of the unique id", endpoint_text(address)),
          Finding::no_key};
    connection.set_max_payload_bytes(wire::kMaxFromHubBytes);
    return Acquaintance{std::move(connection), *std::move(welcome.value())};
  }
};

// Errors: tuttiSystemError when the name may be found later, else tuttiInvalidUsage.
Result<std::vector<sockaddr_storage>> resolve(const MeetingPoint& point) {
  std::vector<sockaddr_storage> hosts;
  if (Result<sockaddr_storage> numeric = parse_address(point.host, 0); numeric.ok()) {
    hosts.push_back(numeric.value());
  } else if (point.host.find_first_of(":%") != std::string::npos) {
    return numeric.status();  // an IPv6 address that does not exist here; no name server knows better
  } else {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (const int error = ::getaddrinfo(point.host.c_str(), nullptr, &hints, &found); error != 0) {
      const bool may_pass = error == EAI_AGAIN || error == EAI_SYSTEM || error == EAI_MEMORY;
      return fail(may_pass ? tuttiSystemError : tuttiInvalidUsage, "cannot find the host '{}'{}{}: {}", point.host,
                  point.host_from.empty() ? "" : " of ", point.host_from, ::gai_strerror(error));
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
      if (one->ai_family == AF_INET || one->ai_family == AF_INET6)
        std::memcpy(&hosts.emplace_back(), one->ai_addr, one->ai_addrlen);
  }
  std::vector<sockaddr_storage> candidates;
  for (uint32_t i = 0; i < point.port_count && point.port + i <= 65535; ++i)
    for (sockaddr_storage host : hosts) {
      set_port(host, static_cast<uint16_t>(point.port + i));
      candidates.push_back(host);
    }
  return candidates;
}

// "host alpha, port 29500 to 29515"
std::string place_of(const MeetingPoint& point) {
  const std::string last = point.port_count == 1 ? "" : fmt::format(" to {}", point.port + point.port_count - 1);
  return fmt::format("host {}, port {}{}", point.host, point.port, last);
}

// For how long something has been so without a break.
class Streak {
 public:
  bool lasts(bool is_so, Nanoseconds time) {
    const Nanoseconds now = steady_now();
    if (!was_so_) began_ = now;
    was_so_ = is_so;
    return is_so && now - began_ >= time;
  }

 private:
  bool was_so_ = false;
  Nanoseconds began_ = 0;
};

}  // namespace

Result<bool> wait_for(int descriptor, short events, Nanoseconds until, const std::atomic<bool>& abort) {
  for (;;) {
    // Relaxed: the flag alone is the message; nothing else is read on the strength of it.
    if (abort.load(std::memory_order_relaxed)) return invalid_usage("the communicator was aborted while it was set up");
    const Nanoseconds now = steady_now();
    if (now >= until) return false;
    const Nanoseconds slice = std::min(until - now, kAbortInterval);
    const timespec wait{0, static_cast<long>(slice)};
    pollfd one{descriptor, events, 0};
    if (::ppoll(&one, 1, &wait, nullptr) > 0) return true;
  }
}

Result<Acquaintance> dial(const MeetingPoint& point, const Introduction& self, Nanoseconds deadline,
                          const std::atomic<bool>& abort) {
  const Dialler dialler{point, self, deadline, abort};
  const Nanoseconds began = steady_now();
  Nanoseconds patience = kFirstPatience, pause = kFirstPause;
  Streak nameless, locked_out;
  Status last;     // what the last attempt met
  Status refusal;  // what a hub said; worth more than a closed port
  do {
    Result<std::vector<sockaddr_storage>> found = resolve(point);
    if (!found.ok()) last = found.status();
    const bool may_pass = found.status().code() == tuttiSystemError;
    if (nameless.lasts(!found.ok(), may_pass ? kNameServerPatience : kUnknownNamePatience)) return last;
    const std::vector<sockaddr_storage> candidates =
        found.ok() ? std::move(found).value() : std::vector<sockaddr_storage>();
    if (candidates.size() == 1) patience = kMostPatience;
    size_t nobody = 0, no_key = 0;
    for (size_t i = 0; i < candidates.size() && steady_now() < deadline; ++i) {
      Attempt attempt = dialler.attempt(candidates[i], patience);
      if (auto* met = std::get_if<Acquaintance>(&attempt)) return std::move(*met);
      const Failure& failure = std::get<Failure>(attempt);
      if (failure.finding == Finding::fatal || (failure.refused() && candidates.size() == 1)) return failure.status;
      (failure.refused() ? refusal : last) = failure.status;
      nobody += failure.finding == Finding::nobody;
      no_key += failure.finding == Finding::no_key;
    }
    if (locked_out.lasts(no_key > 0 && nobody + no_key == candidates.size(), kRefusalPatience))
      return fail(refusal.code(),
                  "{}; no other meeting point came up on {} for {} s. If that one is another job's, "
                  "give this job another MASTER_PORT",
                  refusal.message(), place_of(point), kRefusalPatience / kSecond);
    TUTTI_TRY(wait_for(-1, 0, std::min(deadline, steady_now() + pause), abort));
    patience = std::min(2 * patience, kMostPatience);
    pause = std::min(2 * pause, kMostPause);
  } while (steady_now() < deadline);
  const Status& why = refusal.ok() ? last : refusal;
  return fail(
      refusal.ok() ? tuttiTimeout : refusal.code(),
      "tried for {:.1f} s to reach the meeting point on {} ({}); see whether the process that made it "
      "runs, whether a firewall is between, and whether TUTTI_SOCKET_IFNAME there names a network that this host "
      "can reach",
      static_cast<double>(steady_now() - began) / static_cast<double>(kSecond), place_of(point),
      why.ok() ? "no attempt was finished" : why.message());
}

}  // namespace tutti
