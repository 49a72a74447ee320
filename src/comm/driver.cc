#include "comm/driver.h"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

constexpr uint32_t kPollsAtOnce = 200;  // a few us

}  // namespace

Run::Run(const Batch& batch) : batch_(batch) {
  std::map<std::pair<Collective, uint32_t>, size_t> index;
  for (const Request& request : batch.messages) {
    const auto [it, added] = index.try_emplace({request.collective, request.root}, queues_.size());
    if (added) queues_.emplace_back();
    queues_[it->second].requests.push_back(&request);
  }
}

Run::Run(const Batch& batch, Performance* started) : batch_(batch), state_(State::ordered) {
  current_ = {&batch.ordered.front(), started};
}

Progress Run::poll() {
  if (state_ == State::finished) return Progress::finished;
  if (batch_.comm->failed() && batch_.comm->has_turn(batch_.ticket)) {
    end(batch_.comm->error());
    return Progress::finished;
  }
  Result<Progress> progress = advance();
  if (!progress.ok()) {
    const Active* active = stuck();
    end(batch_.comm->latch_failure(progress.status(), active ? active->execution : nullptr,
                                   active ? active->request : nullptr));
    return Progress::finished;
  }
  return *progress;
}

void Run::end(Status status) {
  error_ = std::move(status);
  if (!error_.ok()) {
    if (current_.execution) current_.execution->cancel();
    for (Queue& queue : queues_)
      if (queue.active.execution) queue.active.execution->cancel();
  }
  state_ = State::finished;
  finish_wait();
  batch_.comm->tell_moving();
  // The last use of the communicator: another thread may be waiting to destroy it.
  batch_.comm->end_turn();
}

Result<Progress> Run::advance() {
  if (state_ == State::waiting) {
    if (!batch_.comm->has_turn(batch_.ticket)) return Progress::blocked;
    state_ = State::ordered;
    // Something has moved, even if no message has: who armed for the turn must arm for messages before it sleeps.
    TUTTI_TRY_ASSIGN(const Progress progress, advance());
    return progress == Progress::blocked ? Progress::moved : progress;
  }
  TUTTI_TRY(batch_.comm->wiring_in_turn().progress());
  Progress progress = Progress::blocked;
  if (state_ == State::ordered) {
    TUTTI_TRY_ASSIGN(progress, poll_ordered());
    if (progress == Progress::finished) state_ = State::messages;
  }
  if (state_ == State::messages) {
    TUTTI_TRY_ASSIGN(progress, poll_messages());
    if (progress == Progress::finished) state_ = State::draining;
  }
  if (state_ == State::draining) {
    // What was sent must have left this process: the caller may not come back for long.
    if (!batch_.comm->wiring_in_turn().drained()) return Progress::blocked;
    end({});
    return Progress::finished;
  }
  return progress;
}

Result<Progress> Run::poll_ordered() {
  bool moved = false;
  while (next_ < batch_.ordered.size()) {
    const Request& request = batch_.ordered[next_];
    if (!current_.execution) {
      if (request.fusion) request.fusion->gather();
      TUTTI_TRY_ASSIGN(current_.execution, batch_.comm->start(request));
      current_.request = &request;
    }
    Result<Progress> progress = current_.execution->poll();
    if (!progress.ok()) return batch_.comm->explain(progress.status(), *current_.execution, request);
    if (*progress != Progress::finished) return moved ? Progress::moved : *progress;
    if (request.fusion) request.fusion->scatter();
    last_ = std::exchange(current_, {});
    ++next_;
    moved = true;
  }
  return Progress::finished;
}

Result<Progress> Run::poll_messages() {
  bool moved = false, all_finished = true;
  for (Queue& queue : queues_) {
    while (queue.next < queue.requests.size()) {
      const Request& request = *queue.requests[queue.next];
      if (!queue.active.execution) {
        TUTTI_TRY_ASSIGN(queue.active.execution, batch_.comm->start(request));
        queue.active.request = &request;
      }
      Result<Progress> progress = queue.active.execution->poll();
      if (!progress.ok()) return batch_.comm->explain(progress.status(), *queue.active.execution, request);
      moved |= *progress != Progress::blocked;
      if (*progress != Progress::finished) break;
      last_ = std::exchange(queue.active, {});
      ++queue.next;
    }
    all_finished &= queue.next == queue.requests.size();
  }
  if (all_finished) return Progress::finished;
  return moved ? Progress::moved : Progress::blocked;
}

const Run::Active* Run::stuck() const {
  if (current_.execution) return &current_;
  for (const Queue& queue : queues_)
    if (queue.active.execution) return &queue.active;
  return state_ == State::draining && last_.execution ? &last_ : nullptr;
}

bool Run::prepare_wait(std::vector<pollfd>& descriptors) {
  if (state_ == State::finished) return true;
  descriptors.push_back({batch_.comm->control_descriptor(), POLLIN, 0});
  if (state_ == State::waiting) {
    descriptors.push_back({batch_.comm->wait_for_turn(batch_.ticket), POLLIN, 0});
    armed_ = Armed::turn;
    return true;
  }
  armed_ = Armed::wiring;
  return batch_.comm->wiring_in_turn().prepare_wait(descriptors);
}

void Run::finish_wait() {
  // By what was armed, not by the state: the poll in between may have changed that.
  const Armed armed = std::exchange(armed_, Armed::nothing);
  if (armed == Armed::turn) batch_.comm->end_wait_for_turn(batch_.ticket);
  if (armed == Armed::wiring) batch_.comm->wiring_in_turn().finish_wait();
}

void Run::check(Nanoseconds idle) {
  if (state_ == State::finished) return;
  const Active* active = stuck();
  const Status status = batch_.comm->check(idle, active ? active->execution : nullptr, active ? active->request : nullptr);
  // A run that waits for its turn ends when that comes: poll() sees the error then.
  if (!status.ok() && state_ != State::waiting)
    end(batch_.comm->latch_failure(status, active ? active->execution : nullptr, active ? active->request : nullptr));
  else if (!status.ok()) (void)batch_.comm->latch(status);
}

namespace {

class Runs final : public Waitable {
 public:
  explicit Runs(std::span<Run> runs) : runs_(runs) {}

  Result<Progress> poll() override {
    bool moved = false, all_finished = true;
    for (Run& run : runs_) {
      if (run.finished()) continue;
      const Progress progress = run.poll();
      moved |= progress != Progress::blocked;
      all_finished &= progress == Progress::finished;
    }
    if (all_finished) return Progress::finished;
    return moved ? Progress::moved : Progress::blocked;
  }
  bool prepare_wait(std::vector<pollfd>& descriptors) override {
    bool quiet = true;
    for (Run& run : runs_) quiet &= run.prepare_wait(descriptors);
    return quiet;
  }
  void finish_wait() override {
    for (Run& run : runs_) run.finish_wait();
  }
  Status check(Nanoseconds idle) override {
    for (Run& run : runs_) run.check(idle);
    return {};
  }
  Status first_error() const {
    for (const Run& run : runs_)
      if (!run.error().ok()) return run.error();
    return {};
  }

 private:
  std::span<Run> runs_;
};

Status drive(std::span<Run> runs, const WaitPolicy& policy) {
  Runs together(runs);
  TUTTI_TRY(wait_until_finished(together, policy, SteadyClock::instance()));
  return together.first_error();
}

}  // namespace

Status run_request(Communicator& comm, uint64_t ticket, const Request& request) {
  const Batch batch{&comm, ticket, {&request, 1}, {}};
  const WaitPolicy policy = comm.wait_policy();
  if (!comm.has_turn(batch.ticket) || comm.failed()) {
    Run run(batch);
    return drive({&run, 1}, policy);
  }
  // The common call, in as few instructions as can be: a small one takes less time than the general way of running it.
  // What is not done after some polls, or goes wrong, is left to that.
  Result<Performance*> started = comm.start(request);
  if (!started.ok()) {
    const Status latched = comm.latch_failure(started.status(), nullptr, &request);
    comm.end_turn();  // the last use of the communicator: another thread may be waiting to destroy it
    return latched;
  }
  Wiring& wiring = comm.wiring_in_turn();
  for (uint32_t idle_polls = 0; idle_polls <= std::min(policy.spin_polls, kPollsAtOnce);) {
    if (!wiring.progress().ok()) break;  // it tells again
    Result<Progress> progress = (*started)->poll();
    if (!progress.ok()) break;
    if (*progress == Progress::finished && wiring.drained()) {
      comm.end_turn();
      return {};
    }
    if (*progress != Progress::moved) {
      ++idle_polls;
      pause_core();
    }
  }
  Run run(batch, *started);
  return drive({&run, 1}, policy);
}

Status run_batches(std::span<const Batch> batches) {
  if (batches.empty()) return {};
  WaitPolicy policy = batches.front().comm->wait_policy();
  std::vector<Run> runs(batches.begin(), batches.end());
  // One thread that drives several ranks waits for itself more than for others.
  if (runs.size() > 1) policy.spin_polls = 0;
  return drive(runs, policy);
}

}  // namespace tutti
