// Communicator: one rank's membership of a group of ranks.
//
// Owns the control channel, the wiring and the executions; knows the order of operations and the first error. It does
// not wait: a Driver (driver.h) drives the runs of one or several communicators.
//
// Order. Each run takes a ticket when it is issued; runs take their turns in that order, whichever threads drive them.
// Everything marked "in turn" is for the holder of the turn only.
//
// Errors. The first one is latched, raises the abort flag, and is told to all ranks through the hub.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

#include "base/fd.h"
#include "bootstrap/rendezvous.h"
#include "comm/request.h"
#include "comm/wiring.h"
#include "comm/performance.h"
#include "engine/wait.h"
#include "tune/tuner.h"

namespace tutti {

// What a communicator is made from.
struct CommunicatorOptions {
  Config config;
  std::string name = "world";
  MeetingPoint point;
  Rank rank;
  Rank nranks{1};
  std::shared_ptr<Hub> hub;  // where this process holds it
};

class Communicator {
 public:
  // Blocks until all ranks have come. `abort` ends it early.
  static Result<std::unique_ptr<Communicator>> create(CommunicatorOptions options);
  // Leaves. Requires that no run is under way.
  ~Communicator();

  Rank rank() const { return options_.rank; }
  Rank nranks() const { return options_.nranks; }
  const Config& config() const { return options_.config; }
  const std::string& name() const { return options_.name; }
  const Wiring& wiring() const { return *wiring_; }
  // Null: the rank's buffers are host memory.
  const Device* device() const { return device_.get(); }
  // How kernels would move an operation of that many bytes; simple for the host.
  dev::Protocol protocol(uint64_t wide_bytes) const;
  WaitPolicy wait_policy() const { return wait_policy_; }

  // ---- the first error; any thread
  Status error() const;
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Latches `status` unless there is an error already, tells everybody, returns the latched one.
  Status latch(const Status& status);
  // The same for the failure of an operation under way (null: of none), after asking the hub for its reason. In turn.
  Status latch_failure(const Status& failure, const Performance* execution, const Request* request);
  Status latch_abort();  // latches that this rank has aborted
  // What error() says, after a look at what the hub has told. Any thread; non-blocking.
  Status ask_for_error();

  // ---- order; any thread
  uint64_t issue() { return issued_.fetch_add(1, std::memory_order_relaxed); }
  bool has_turn(uint64_t ticket) const { return turn() == ticket; }
  void end_turn();
  // For a thread that is about to sleep until this ticket's turn: a descriptor of its own, readable when it has come
  // (negative where none is to be had). One for all would be read by whoever wakes first.
  int wait_for_turn(uint64_t ticket);
  void end_wait_for_turn(uint64_t ticket);
  // Blocks until this ticket's turn has come.
  void wait_until_turn(uint64_t ticket);
  // Blocks until all that was issued before has ended.
  void wait_until_idle();
  // The same; then compares the last calls with those of the ranks that have finalized or left before this one. Waits for
  // the hub's answer, not for ranks.
  Status finalize();
  bool finalized() const { return finalized_.load(std::memory_order_relaxed); }

  // ---- in turn
  // Starts `request` and gives what runs it. At most one unfinished execution for each (plan, peer) at a time.
  Result<Performance*> start(const Request& request);
  // What the caller of start() was told went wrong, in words with both sides of a mismatch.
  Status explain(const Status& failure, const Performance& execution, const Request& request) const;
  Wiring& wiring_in_turn() { return *wiring_; }

  // Called while nothing moves for `idle`: news, lost peers, deadline. `execution` and `request` may be null.
  Status check(Nanoseconds idle, const Performance* execution, const Request* request);
  // The run ends: takes back what check() has told the hub.
  void tell_moving();
  int control_descriptor() const { return control_->descriptor(); }

  // Collective exchange of a blob with all ranks, in turn; for Split and its kin.
  Result<std::vector<std::vector<std::byte>>> exchange(std::vector<std::byte> mine);

  // ---- operations with a factor; any thread
  struct Factor {
    DataType type;
    uint64_t scalar_bits;
  };
  tuttiRedOp_t add_factor(Factor factor);
  Status remove_factor(tuttiRedOp_t op);
  Result<Factor> factor(tuttiRedOp_t op) const;

  // ---- registered buffers; any thread
  Status register_buffer(void* buffer, size_t bytes, void** handle);
  Status deregister_buffer(void* handle);

  // How an operation would run.
  Result<Choice> choose(Collective collective, Rank root, uint64_t bytes) const {
    return tuner_->choose(collective, root, bytes);
  }

 private:
  explicit Communicator(CommunicatorOptions options) : options_(std::move(options)) {}
  Status join();
  std::string describe_self() const;
  std::string describe_operation(const Request& request) const;
  std::string describe_waits(const Performance& execution) const;
  Status departed_error(const Performance& execution, const Request& request) const;
  Status reason_behind(const Status& failure, const Performance* execution, const Request* request);
  std::optional<Status> read_news();
  void report_wait(const Performance& execution, const Request& request, Nanoseconds idle);
  Status compare_calls();
  bool all_heard() const { return heard_ == told_hub_ || control_->descriptor() < 0; }
  std::vector<Call> last_calls() const;
  std::optional<uint64_t> past_tag(uint32_t sequence) const;
  uint32_t next_sequence(const Request& request);
  // Acquire: what earlier holders did to the communicator is seen.
  uint64_t turn() const { return turn_.load(std::memory_order_acquire) / kOneTurn; }
  void add_waiter();
  void remove_waiter();

  CommunicatorOptions options_;
  std::unique_ptr<Control> control_;
  std::unique_ptr<Device> device_;  // outlives what uses its memory
  std::unique_ptr<Wiring> wiring_;
  std::optional<Tuner> tuner_;
  Crowd crowd_;
  WaitPolicy wait_policy_;

  mutable std::mutex error_mutex_;
  Status error_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> finalized_{false};

  std::atomic<uint64_t> issued_{0};
  // The turn, times kOneTurn, plus kWaitedFor while a thread sleeps until it changes.
  static constexpr uint64_t kOneTurn = 2, kWaitedFor = 1;
  std::atomic<uint64_t> turn_{0};
  std::map<uint64_t, Fd> turn_events_;  // of those who sleep, by ticket; under idle_mutex_
  std::vector<Fd> spare_events_;        // to be used again
  std::mutex idle_mutex_;
  std::condition_variable idle_;
  int waiters_ = 0;  // guarded by idle_mutex_

  // In turn.
  struct PlanKey {
    Collective collective;
    const Algorithm* algorithm;
    uint32_t root, lanes;
    auto operator<=>(const PlanKey&) const = default;
  };
  std::map<PlanKey, std::unique_ptr<Performance>> executions_;
  // What the last operations of each kind and size ran by, as applications repeat themselves. Direct-mapped.
  struct Prepared {
    Request::Shape shape;
    Choice choice;
    uint64_t tag = 0;
    Performance* execution = nullptr;  // null: empty
    uint64_t binding = 0;            // of the execution; it is still bound so while it counts no more
  };
  static constexpr size_t kPrepared = 64;
  std::array<Prepared, kPrepared> prepared_;
  Status prepare(const Request& request, Prepared& place);
  void bind(const Request& request, Prepared& prepared, const Stamp& stamp);
  void bind_to_device(const Request& request, const Prepared& prepared, const Stamp& stamp);
  uint32_t sequence_ = 0;                              // of collectives
  // The tags of the last ones: of those that differ between ranks, some ranks may have left behind.
  static constexpr uint32_t kPastTags = 32;
  std::array<uint64_t, kPastTags> past_tags_{};
  std::vector<uint32_t> send_sequence_, recv_sequence_;  // of messages to and from each rank
  std::mutex control_mutex_;                           // check() may be called by several waiting threads
  std::vector<bool> departed_;
  std::optional<Status> told_;  // by the hub: the failure of the group
  uint32_t told_hub_ = 0, heard_ = 0;  // reports of waits, and those that the hub has answered
  // Of the last report: the call (ticket and sequence number), how long it had been idle, and whether it still holds.
  struct Reported {
    uint64_t ticket = UINT64_MAX;
    uint32_t sequence = 0;
    Nanoseconds idle = 0;
    bool holds = false;
  } reported_;

  mutable std::mutex factor_mutex_;
  std::map<int, Factor> factors_;
  int next_factor_ = tuttiNumOps;

  struct RegisteredBuffer {
    void* buffer;
    size_t bytes;
  };
  std::mutex registered_mutex_;
  std::map<void*, std::unique_ptr<RegisteredBuffer>> registered_;  // by handle
};

}  // namespace tutti
