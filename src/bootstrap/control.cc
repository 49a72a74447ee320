#include "bootstrap/control.h"

#include <poll.h>

#include <algorithm>

#include "base/log.h"

namespace tutti {
namespace {

// The hub keeps the deadlines that ranks give it and then tells everybody who is missing. Only when even that does not
// come is it the hub that is stuck.
constexpr Nanoseconds kGrace = 2 * kSecond;
// For the last frames when the socket is full as this side closes.
constexpr int kLastSendMs = 200;

Nanoseconds later(Nanoseconds now, Nanoseconds wait) {
  return wait > ~Nanoseconds{0} - now ? ~Nanoseconds{0} : now + wait;
}

}  // namespace

ControlChannel::ControlChannel(Acquaintance hub, const Introduction& self, const Config& config,
                               const std::atomic<bool>& abort)
    : self_(self),
      timeout_(config.timeout),
      abort_(abort),
      hub_host_(hub.hub.host),
      hub_pid_(hub.hub.pid),
      connection_(std::move(hub.connection)) {}

ControlChannel::~ControlChannel() {
  const std::lock_guard lock(sending_);
  if (over()) return;
  connection_.flush();
  if (connection_.has_unsent()) {
    pollfd one{connection_.descriptor(), POLLOUT, 0};
    ::poll(&one, 1, kLastSendMs);
    connection_.flush();
  }
  connection_.finish_sending();
}

void ControlChannel::send(wire::Type type, wire::View payload) {
  const std::lock_guard lock(sending_);
  connection_.send(wire::frame(type, payload));
}

std::string ControlChannel::hub_name() const {
  for (const Introduction& member : members_)
    if (member.host == hub_host_ && member.pid == hub_pid_)
      return fmt::format("rank {} (host {}, pid {}), which holds the meeting point,",
                         static_cast<uint32_t>(member.rank), hub_host_, hub_pid_);
  return fmt::format("the process that holds the meeting point (host {}, pid {})", hub_host_, hub_pid_);
}

void ControlChannel::latch(const Status& failure) {
  if (failure_) return;
  failure_ = failure;
  news_.failure = failure;
}

void ControlChannel::handle_end() {
  over_.store(true, std::memory_order_relaxed);
  if (goodbye_ || leaving_) return;
  const int reason = connection_.end_reason();
  const char* name = reason != 0 ? strerrorname_np(reason) : nullptr;
  latch(fail(tuttiRemoteError, "{} died or lost its connection{}{}{}", hub_name(), name ? " (" : "", name ? name : "",
             name ? ")" : ""));
}

Status ControlChannel::take(const wire::Frame& frame) {
  const Status malformed = fail(tuttiInternalError, "the meeting point sent a malformed message");
  switch (frame.type) {
    case wire::Type::group: {
      std::optional<std::vector<Introduction>> members = wire::decode_members(frame.payload);
      if (!members || members->size() != self_.nranks || !members_.empty()) return malformed;
      members_ = *std::move(members);
      return {};
    }
    case wire::Type::exchange_result: {
      std::optional<wire::ExchangeResult> result = wire::decode_exchange_result(frame.payload);
      if (!result || result->blobs.size() != self_.nranks) return malformed;
      results_.push_back(*std::move(result));
      return {};
    }
    case wire::Type::failure: {
      const std::optional<Status> status = wire::decode_status(frame.payload);
      if (!status) return malformed;
      latch(*status);
      return {};
    }
    case wire::Type::departed: {
      const std::optional<Rank> rank = wire::decode_rank(frame.payload);
      if (!rank) return malformed;
      news_.departed.push_back(*rank);
      return {};
    }
    case wire::Type::heard:
      ++news_.heard;
      return {};
    case wire::Type::goodbye:
      goodbye_ = true;
      return {};
    default:
      return malformed;
  }
}

void ControlChannel::read_news() {
  if (over()) return;
  const Connection::State state = connection_.receive();
  for (;;) {
    Result<std::optional<wire::Frame>> frame = connection_.next_frame();
    if (frame.ok() && !frame.value()) break;
    const Status status = frame.ok() ? take(*frame.value()) : frame.status();
    if (status.ok()) continue;
    latch(status.within(hub_name()));
    over_.store(true, std::memory_order_relaxed);
    return;
  }
  if (state == Connection::State::ended) handle_end();
}

Status ControlChannel::wait_until(const std::function<bool()>& done, Nanoseconds deadline, std::string_view what) {
  const Nanoseconds last = later(deadline, kGrace);
  const Nanoseconds began = steady_now();
  for (;;) {
    read_news();
    if (failure_) return *failure_;
    if (done()) return {};
    if (over() || goodbye_) return fail(tuttiRemoteError, "{} left while {}", hub_name(), what);
    short events = POLLIN;
    {
      const std::lock_guard lock(sending_);
      connection_.flush();
      if (connection_.has_unsent()) events |= POLLOUT;
    }
    TUTTI_TRY_ASSIGN(const bool ready, wait_for(connection_.descriptor(), events, last, abort_));
    if (!ready)
      return fail(tuttiTimeout, "waited {:.1f} s while {}, and {} does not answer; it may be stopped or overloaded",
                  static_cast<double>(steady_now() - began) / static_cast<double>(kSecond), what, hub_name());
  }
}

Status ControlChannel::wait_for_group(Nanoseconds deadline) {
  return wait_until([this] { return !members_.empty(); }, deadline, "this rank waited for the others to come");
}

Result<std::vector<std::vector<std::byte>>> ControlChannel::exchange(std::vector<std::byte> mine) {
  if (mine.size() > wire::kMaxBlobBytes)
    return invalid_argument("a rank may exchange at most {} bytes, not {}", wire::kMaxBlobBytes, mine.size());
  const uint32_t sequence = exchange_sequence_++;
  send(wire::Type::contribution, wire::encode(wire::Contribution{sequence, timeout_, mine}));
  TUTTI_TRY(
      wait_until([this] { return !results_.empty(); }, later(steady_now(), timeout_), "all ranks exchanged addresses"));
  wire::ExchangeResult result = std::move(results_.front());
  results_.pop_front();
  if (result.sequence != sequence)
    return fail(tuttiInternalError, "{} answered exchange {} instead of {}", hub_name(), result.sequence, sequence);
  return std::move(result.blobs);
}

ControlNews ControlChannel::poll() {
  {
    const std::lock_guard lock(sending_);
    if (!over()) connection_.flush();
  }
  read_news();
  return std::exchange(news_, {});
}

void ControlChannel::report_failure(const Status& status) {
  const std::lock_guard lock(sending_);
  if (status.ok() || std::exchange(reported_, true)) return;
  connection_.send(wire::frame(wire::Type::failure_report, wire::encode(status)));
}

void ControlChannel::report_wait(const LongWait& wait) { send(wire::Type::wait, wire::encode(wait)); }

void ControlChannel::report_moving() { send(wire::Type::moving, {}); }

void ControlChannel::leave(const std::vector<Call>& calls) {
  leaving_ = true;
  send(wire::Type::leaving, wire::encode(std::span<const Call>(calls)));
}

Result<std::unique_ptr<Control>> Control::join(const MeetingPoint& point, const Introduction& self,
                                               const Config& config, const std::atomic<bool>& abort) {
  if (self.nranks < 1 || self.rank >= self.nranks)
    return invalid_argument("rank {} is out of range: with {} ranks it may be from 0 to {}",
                            static_cast<uint32_t>(self.rank), static_cast<uint32_t>(self.nranks),
                            static_cast<int64_t>(self.nranks) - 1);
  const Nanoseconds deadline = later(steady_now(), config.timeout);
  TUTTI_TRY_ASSIGN(Acquaintance hub, dial(point, self, deadline, abort));
  auto control = std::make_unique<ControlChannel>(std::move(hub), self, config, abort);
  TUTTI_TRY(control->wait_for_group(deadline));
  log(LogLevel::info, Subsystem::bootstrap, static_cast<int>(self.rank), "joined {} ranks at {}:{}",
      static_cast<uint32_t>(self.nranks), point.host, point.port);
  return std::unique_ptr<Control>(std::move(control));
}

}  // namespace tutti
