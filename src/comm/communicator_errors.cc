// What goes wrong on a communicator: its first error, the reason behind it, and the words for it.

#include <poll.h>

#include "base/log.h"
#include "comm/communicator.h"
#include "comm/tag.h"

namespace tutti {
namespace {

// Long enough that a healthy wait never gets there, short enough that nobody reaches for a debugger first.
constexpr Nanoseconds kStallAfter = kSecond;
// The hub's news comes within a millisecond on a quiet host; on a crowded one it may take some time slices.
constexpr Nanoseconds kHubTellsWithin = 500 * kMillisecond;

}  // namespace

Status Communicator::error() const {
  if (!failed()) return {};
  std::lock_guard lock(error_mutex_);
  return error_;
}

Status Communicator::latch(const Status& status) {
  {
    std::lock_guard lock(error_mutex_);
    if (!error_.ok()) return error_;
    error_ = status;
    // Release: whoever sees the flag sees the error (and takes the mutex anyway to read it).
    failed_.store(true, std::memory_order_release);
  }
  log(LogLevel::warn, Subsystem::coll, static_cast<int>(options_.rank), "{}: {}", options_.name, status.message());
  control_->report_failure(status);
  return status;
}

Status Communicator::latch_abort() {
  return latch(fail(tuttiRemoteError, "{} aborted the communicator", describe_self()));
}

Status Communicator::latch_failure(const Status& failure, const Performance* execution, const Request* request) {
  return latch(reason_behind(failure, execution, request));
}

Status Communicator::ask_for_error() {
  std::optional<Status> told;
  {
    // Who holds it reads the news himself, and may do so for long.
    const std::unique_lock lock(control_mutex_, std::try_to_lock);
    if (lock && !failed()) told = read_news();
  }
  return told ? latch(*told) : error();
}

// A link only sees that its other end is gone, and a deadline only whom this rank waits for; the hub knows why: an abort,
// an error, a departure, a death, calls that differ, a rank that all others wait for. Its word comes by another way, so it
// may come after.
Status Communicator::reason_behind(const Status& failure, const Performance* execution, const Request* request) {
  const bool timeout = failure.code() == tuttiTimeout;
  if (failure.code() != tuttiRemoteError && !timeout) return failure;
  std::lock_guard lock(control_mutex_);
  if (timeout)
    control_->report_failure(failure);  // comes back with what the hub knows
  else if (execution)
    report_wait(*execution, *request, kStallAfter);
  const Nanoseconds until = steady_now() + kHubTellsWithin;
  for (;;) {
    if (const std::optional<Status> told = read_news()) return *told;
    if (execution && all_heard()) TUTTI_TRY(departed_error(*execution, *request));
    const Nanoseconds now = steady_now();
    pollfd hub{control_->descriptor(), POLLIN, 0};
    if (now >= until || hub.fd < 0) break;
    ::poll(&hub, 1, static_cast<int>((until - now) / kMillisecond) + 1);
  }
  if (!timeout || control_->descriptor() < 0) return failure;
  return fail(tuttiTimeout, "{}; {} does not answer: it may be stopped or overloaded", failure.message(),
              control_->hub_name());
}

std::optional<Status> Communicator::read_news() {
  ControlNews news = control_->poll();
  for (Rank rank : news.departed) departed_[rank] = true;
  heard_ += news.heard;
  if (news.failure) told_ = std::move(news.failure);
  return told_;
}

std::string Communicator::describe_self() const { return describe(control_->members()[options_.rank]); }

std::string Communicator::describe_operation(const Request& request) const {
  return describe_tag(tag_of(request));
}

Status Communicator::explain(const Status& failure, const Performance& execution, const Request& request) const {
  if (!execution.mismatch()) return failure.within(describe_operation(request));
  const auto& m = *execution.mismatch();
  const std::string theirs = describe(control_->members()[m.peer]);
  Stamp mine = execution.stamp();
  if (m.theirs == mine)
    return invalid_usage("{} and {} disagree on the size of a message in {}: {} bytes were sent, {} expected; the counts "
                         "given for each other must be equal",
                         theirs, describe_self(), describe_operation(request), m.bytes, m.expected_bytes);
  if (!request.point_to_point()) {
    // Where the other is behind, what counts is what this rank did then.
    const std::optional<uint64_t> past = past_tag(m.theirs.sequence);
    if (past && *past != m.theirs.tag) mine = {*past, m.theirs.sequence};
  }
  return invalid_usage("{} and {} disagree on what to do: {} is in operation {}, {}; {} is in operation {}, {}; all "
                       "ranks must make the same calls in the same order",
                       describe_self(), theirs, describe_self(), mine.sequence, describe_tag(mine.tag), theirs,
                       m.theirs.sequence, describe_tag(m.theirs.tag));
}

Status Communicator::departed_error(const Performance& execution, const Request& request) const {
  for (const Execution::Wait& wait : execution.waits())
    if (departed_[wait.peer])
      return fail(tuttiRemoteError, "{} has destroyed its communicator and is waited for in {}",
                  describe(control_->members()[wait.peer]), describe_operation(request));
  return {};
}

Status Communicator::check(Nanoseconds idle, const Performance* execution, const Request* request) {
  if (failed()) return error();
  std::unique_lock lock(control_mutex_);
  if (const std::optional<Status> told = read_news()) return *told;
  if (!execution) return {};
  TUTTI_TRY(wiring_->check_peers());
  if (idle >= std::min(kStallAfter, options_.config.timeout / 2)) {
    report_wait(*execution, *request, idle);
    // That ranks disagree says more than that one of them has left.
    if (all_heard()) TUTTI_TRY(departed_error(*execution, *request));
  }
  if (idle < options_.config.timeout) return {};
  return fail(tuttiTimeout, "nothing moved for {:.3g} s in operation {}, {}; waiting for {}; TUTTI_TIMEOUT sets the limit",
              static_cast<double>(idle) / kSecond, execution->stamp().sequence,
              describe_operation(*request), describe_waits(*execution));
}

// Once while nothing moves in a call, or in an operation of a group.
void Communicator::report_wait(const Performance& execution, const Request& request, Nanoseconds idle) {
  const bool same = reported_.ticket == turn() && reported_.sequence == sequence_ && reported_.idle <= idle;
  reported_ = {turn(), sequence_, idle, true};
  if (same) return;
  log(LogLevel::info, Subsystem::coll, static_cast<int>(options_.rank), "{}: slow: {} waits for {}", options_.name,
      describe_operation(request), describe_waits(execution));
  LongWait wait{describe_operation(request), {}, last_calls()};
  for (const Execution::Wait& w : execution.waits()) wait.peers.push_back(w.peer);
  control_->report_wait(wait);
  ++told_hub_;
}

void Communicator::tell_moving() {
  if (!reported_.holds) return;
  reported_ = {};
  control_->report_moving();
}

// The one under way and those before: a rank that waits in one of them may wait for a rank that has left it under another
// name.
std::vector<Call> Communicator::last_calls() const {
  std::vector<Call> calls;
  for (uint32_t s = sequence_ - std::min(sequence_, kPastTags); s != sequence_; ++s)
    calls.push_back({s, past_tags_[s % kPastTags], describe_tag(past_tags_[s % kPastTags])});
  return calls;
}

Status Communicator::finalize() {
  finalized_.store(true, std::memory_order_relaxed);
  wait_until_turn(issue());
  const Status compared = failed() ? error() : compare_calls();
  end_turn();
  return compared.ok() || failed() ? compared : latch(compared);
}

Status Communicator::compare_calls() {
  std::lock_guard lock(control_mutex_);
  control_->report_wait({"tuttiCommFinalize", {}, last_calls()});
  ++told_hub_;
  const Nanoseconds until = steady_now() + kHubTellsWithin;
  for (;;) {
    if (const std::optional<Status> told = read_news()) return *told;
    const Nanoseconds now = steady_now();
    if (all_heard() || now >= until) return {};
    pollfd hub{control_->descriptor(), POLLIN, 0};
    ::poll(&hub, 1, static_cast<int>((until - now) / kMillisecond) + 1);
  }
}

std::optional<uint64_t> Communicator::past_tag(uint32_t sequence) const {
  if (sequence >= sequence_ || sequence_ - sequence > kPastTags) return std::nullopt;
  return past_tags_[sequence % kPastTags];
}

std::string Communicator::describe_waits(const Performance& execution) const {
  std::string text;
  for (const Execution::Wait& wait : execution.waits())
    text += fmt::format("{}{} ({}, over {})", text.empty() ? "" : ", ", describe(control_->members()[wait.peer]),
                        wait.receiving ? "has sent nothing" : "has taken nothing", wiring_->transport_name(wait.peer));
  return text.empty() ? "the network to take what was sent" : text;
}

}  // namespace tutti
