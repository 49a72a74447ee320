// Driver: runs batches of requests on one or several communicators from one thread.
#pragma once

#include <map>
#include <span>

#include "comm/communicator.h"

namespace tutti {

// What one communicator is to do in one turn: `ordered` one after the other, then `messages` (sends and receives) all at
// once, those of one direction with one peer in order.
struct Batch {
  Communicator* comm = nullptr;
  uint64_t ticket = 0;  // from comm->issue(), taken when the caller made the call
  std::span<const Request> ordered;  // a single message may stand here
  std::span<const Request> messages;
};

// One batch under way.
class Run {
 public:
  explicit Run(const Batch& batch);
  // Of one request that has the turn and was started already.
  Run(const Batch& batch, Performance* started);
  // Never fails: an error ends the run and is kept. `finished` also then.
  Progress poll();
  const Status& error() const { return error_; }
  bool finished() const { return state_ == State::finished; }

  bool prepare_wait(std::vector<pollfd>& descriptors);
  void finish_wait();
  void check(Nanoseconds idle);

 private:
  enum class State : uint8_t { waiting, ordered, messages, draining, finished };
  // A message, or the one of `ordered` under way.
  struct Active {
    const Request* request = nullptr;
    Performance* execution = nullptr;
  };
  Result<Progress> advance();
  Result<Progress> poll_ordered();
  Result<Progress> poll_messages();
  void end(Status status);
  const Active* stuck() const;

  Batch batch_;
  State state_ = State::waiting;
  size_t next_ = 0;                 // of ordered
  Active current_;                  // of ordered
  Active last_;                     // what finished last, for messages about what drains
  // Queues of messages by (direction, peer), the first of each under way.
  struct Queue {
    std::vector<const Request*> requests;
    size_t next = 0;
    Active active;
  };
  std::vector<Queue> queues_;
  enum class Armed : uint8_t { nothing, turn, wiring } armed_ = Armed::nothing;  // by prepare_wait()
  Status error_;
};

// Runs one request when its turn has come; blocks. The ticket is from comm.issue(), taken when the caller made the call.
Status run_request(Communicator& comm, uint64_t ticket, const Request& request);

// Runs all of them side by side; blocks; returns the first error.
Status run_batches(std::span<const Batch> batches);

}  // namespace tutti
