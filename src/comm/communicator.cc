#include "comm/communicator.h"

#include <sys/eventfd.h>

#include <algorithm>

#include "base/host.h"
#include "base/log.h"
#include "comm/open_device.h"
#include "comm/tag.h"
#include "topo/caches.h"

namespace tutti {
namespace {

// Where a request's shape is remembered.
size_t slot_of(const RequestShape& shape) {
  const uint64_t what = static_cast<uint64_t>(shape.collective) << 8 | static_cast<uint64_t>(shape.type) << 4 |
                        static_cast<uint64_t>(shape.op) | uint64_t{shape.root} << 16;
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio: mixes low bits into the high ones
  return ((shape.in_block_count ^ what << 32) * kGolden) >> 58;
}

// Buffers of `bytes` on each of `ranks` ranks of this node do not stay in its last-level cache, so outputs are stored past
// it.
bool beyond_cache(uint64_t bytes, int ranks) {
  constexpr uint64_t kUsualBytes = uint64_t{16} << 20;
  const uint64_t cache_bytes = machine_caches().l3_bytes != 0 ? machine_caches().l3_bytes : kUsualBytes;
  return bytes * static_cast<uint64_t>(ranks) > cache_bytes;
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(CommunicatorOptions options) {
  configure_log(options.config);
  std::unique_ptr<Communicator> comm(new Communicator(std::move(options)));
  if (Status status = comm->join(); !status.ok()) {
    // The others wait for this rank: tell them why it does not come.
    if (comm->control_) comm->control_->report_failure(status);
    return status;
  }
  return comm;
}

Status Communicator::join() {
  static const std::atomic<bool> never{false};  // nobody has a handle to abort yet
  const Introduction self{options_.rank, options_.nranks, host_name(), static_cast<int>(::getpid())};
  TUTTI_TRY_ASSIGN(control_, Control::join(options_.point, self, options_.config, never));
  TUTTI_TRY_ASSIGN(device_, open_device(options_.config, options_.rank));
  TUTTI_TRY_ASSIGN(wiring_, Wiring::create(options_.config, {options_.point.key.begin(), options_.point.key.end()},
                                           *control_, options_.rank, options_.nranks, device_.get()));
  TUTTI_TRY_ASSIGN(tuner_, Tuner::create(options_.config, wiring_->facts(), options_.rank));
  wait_policy_ = tutti::wait_policy(wiring_->ranks_here(), wiring_->cores_here());
  wait_policy_.crowd = &crowd_;
  send_sequence_.assign(options_.nranks, 0);
  recv_sequence_.assign(options_.nranks, 0);
  departed_.assign(options_.nranks, false);
  log(LogLevel::info, Subsystem::init, static_cast<int>(options_.rank),
      "{}: rank {} of {}, {} on this host with {} cores, transports {}", options_.name,
      static_cast<uint32_t>(options_.rank), static_cast<uint32_t>(options_.nranks), wiring_->ranks_here(),
      wiring_->cores_here(), wiring_->transport_list());
  return {};
}

Communicator::~Communicator() {
  executions_.clear();
  wiring_.reset();
  if (control_) control_->leave(last_calls());
}

// ---- order

void Communicator::end_turn() {
  uint64_t word = turn_.load(std::memory_order_relaxed);
  // Nobody sleeps, and this exchange is the last that the thread has to do with the communicator: whoever sees the end may
  // destroy it. Release: the next holder sees all that this one did.
  if ((word & kWaitedFor) == 0 &&
      turn_.compare_exchange_strong(word, word + kOneTurn, std::memory_order_release, std::memory_order_relaxed))
    return;
  // All under the mutex, which a sleeper must get before it goes on, so that the communicator lives until it is released.
  std::lock_guard lock(idle_mutex_);
  turn_.fetch_add(kOneTurn, std::memory_order_release);
  if (const auto next = turn_events_.find(turn()); next != turn_events_.end() && next->second) {
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(next->second.get(), &one, sizeof one);
  }
  idle_.notify_all();
}

// Under the mutex. The mark is set before the last look at the turn, and it and the turn are one word: either that look
// finds the new turn, or the one who ends it finds the mark.
void Communicator::add_waiter() {
  ++waiters_;
  turn_.fetch_or(kWaitedFor, std::memory_order_relaxed);
}

void Communicator::remove_waiter() {
  if (--waiters_ == 0) turn_.fetch_and(~kWaitedFor, std::memory_order_relaxed);
}

int Communicator::wait_for_turn(uint64_t ticket) {
  std::lock_guard lock(idle_mutex_);
  add_waiter();
  Fd event;
  if (spare_events_.empty()) {
    event.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));  // without one it looks again when the wait's time is over
  } else {
    event = std::move(spare_events_.back());
    spare_events_.pop_back();
  }
  return (turn_events_[ticket] = std::move(event)).get();
}

void Communicator::end_wait_for_turn(uint64_t ticket) {
  std::lock_guard lock(idle_mutex_);
  remove_waiter();
  auto event = turn_events_.extract(ticket);
  if (event.empty() || !event.mapped()) return;
  uint64_t count;
  [[maybe_unused]] const auto read = ::read(event.mapped().get(), &count, sizeof count);
  spare_events_.push_back(std::move(event.mapped()));
}

void Communicator::wait_until_turn(uint64_t ticket) {
  std::unique_lock lock(idle_mutex_);
  if (turn() >= ticket) return;
  add_waiter();
  idle_.wait(lock, [&] { return turn() >= ticket; });
  remove_waiter();
}

void Communicator::wait_until_idle() { wait_until_turn(issued_.load(std::memory_order_relaxed)); }

// ---- running

uint32_t Communicator::next_sequence(const Request& request) {
  if (request.collective == Collective::send) return send_sequence_[request.root]++;
  if (request.collective == Collective::recv) return recv_sequence_[request.root]++;
  return sequence_++;
}

Status Communicator::prepare(const Request& request, Prepared& place) {
  const uint64_t bytes = request.wide_bytes(options_.nranks);
  TUTTI_TRY_ASSIGN(const Choice choice, tuner_->choose(request.collective, request.root, bytes));
  const PlanKey key{request.collective, choice.algorithm, request.root, choice.lanes};
  std::unique_ptr<Performance>& execution = executions_[key];
  if (!execution) {
    const Shape shape{request.collective, options_.nranks, request.root, choice.lanes, wiring_->facts().ranks_per_node};
    Plan plan = plan_in_orders(*choice.algorithm, shape, options_.rank, wiring_->orders());
    if (device_) {
      TUTTI_TRY_ASSIGN(auto made, DeviceExecution::create(std::move(plan), request.collective, options_.nranks, *device_,
                                                          wiring_->fifos(), wiring_->device_event()));
      execution = std::make_unique<Performance>(std::move(made));
    } else {
      TUTTI_TRY_ASSIGN(auto made, Execution::create(std::move(plan), request.collective, options_.nranks, *wiring_));
      execution = std::make_unique<Performance>(std::move(made));
    }
  }
  place = {request, choice, tag_of(request), execution.get(), 0};
  return {};
}

void Communicator::bind(const Request& request, Prepared& prepared, const Stamp& stamp) {
  const Grid grid = prepared.execution->grid();
  const auto element_bytes = static_cast<uint32_t>(size_of(request.type));
  Binding binding;
  binding.in = request.in;
  binding.out = request.out;
  binding.in_layout = Layout(request.in_blocks(), grid.in_blocks, grid.chunks_per_block, element_bytes);
  binding.out_layout = Layout(request.out_blocks(), grid.out_blocks, grid.chunks_per_block, element_bytes);
  binding.fold = {request.type, request.op, options_.nranks, request.scalar_bits};
  binding.tile_bytes = prepared.choice.tile_bytes;
  const uint64_t blocks = request.in_block_count * grid.in_blocks + request.out_block_count * grid.out_blocks;
  binding.streams_out = beyond_cache(blocks * element_bytes, wiring_->ranks_here());
  binding.stamp = stamp;
  prepared.execution->host()->start(binding);
  prepared.binding = prepared.execution->host()->bindings();
}

void Communicator::bind_to_device(const Request& request, const Prepared& prepared, const Stamp& stamp) {
  DeviceBinding binding;
  binding.in = request.in;
  binding.out = request.out;
  binding.in_blocks = request.in_blocks();
  binding.out_blocks = request.out_blocks();
  binding.fold = {request.type, request.op, options_.nranks, request.scalar_bits};
  binding.protocol = protocol(request.wide_bytes(options_.nranks));
  binding.tile_bytes = prepared.choice.tile_bytes;
  // A message's pieces begin at lines of their own: half of what a slot of protocol ll holds leaves room for that.
  if (binding.protocol == dev::Protocol::ll) binding.tile_bytes = std::min(binding.tile_bytes, dev::kLinePayloadBytes / 2);
  binding.stamp = stamp;
  // The wait loop ends an operation at the timeout, with better words; this is for kernels that nobody waits for.
  binding.timeout = 2 * options_.config.timeout;
  prepared.execution->device()->start(binding);
}

dev::Protocol Communicator::protocol(uint64_t wide_bytes) const {
  // Up to here a message's latency is worth twice its bytes.
  constexpr uint64_t kLinesUpToBytes = 16 << 10;
  const NameList& allowed = options_.config.proto;
  if (!wiring_->all_p2p() || !allowed.allows("ll")) return dev::Protocol::simple;
  return wide_bytes <= kLinesUpToBytes || !allowed.allows("simple") ? dev::Protocol::ll : dev::Protocol::simple;
}

Result<Performance*> Communicator::start(const Request& request) {
  Prepared& prepared = prepared_[slot_of(request)];
  const bool known = prepared.execution && prepared.shape == request && !request.tables;
  if (!known) TUTTI_TRY(prepare(request, prepared));
  const Stamp stamp{prepared.tag, next_sequence(request)};
  if (!request.point_to_point()) past_tags_[stamp.sequence % kPastTags] = stamp.tag;
  if (device_) {
    bind_to_device(request, prepared, stamp);
  } else if (known && prepared.binding == prepared.execution->host()->bindings()) {
    prepared.execution->host()->start_again(request.in, request.out, stamp);
  } else {
    bind(request, prepared, stamp);
  }
  if (log_enabled(LogLevel::trace, Subsystem::coll))  // describing takes longer than a small operation
    log(LogLevel::trace, Subsystem::coll, static_cast<int>(options_.rank), "{} #{}: {}, tile {}",
        describe_tag(stamp.tag), stamp.sequence, prepared.choice.algorithm->name, prepared.choice.tile_bytes);
  return prepared.execution;
}

Result<std::vector<std::vector<std::byte>>> Communicator::exchange(std::vector<std::byte> mine) {
  auto theirs = [&] {
    std::lock_guard lock(control_mutex_);
    return control_->exchange(std::move(mine));
  }();
  // Some ranks may have what the others lack: there is no way back to an order that all agree on.
  if (!theirs.ok()) return latch(theirs.status());
  return theirs;
}

// ---- operations with a factor

tuttiRedOp_t Communicator::add_factor(Factor factor) {
  std::lock_guard lock(factor_mutex_);
  factors_[next_factor_] = factor;
  return static_cast<tuttiRedOp_t>(next_factor_++);
}

Status Communicator::remove_factor(tuttiRedOp_t op) {
  std::lock_guard lock(factor_mutex_);
  if (factors_.erase(static_cast<int>(op)) == 0)
    return invalid_argument("operation {} was not made by tuttiRedOpCreatePreMulSum on this communicator",
                            static_cast<int>(op));
  return {};
}

Result<Communicator::Factor> Communicator::factor(tuttiRedOp_t op) const {
  std::lock_guard lock(factor_mutex_);
  const auto it = factors_.find(static_cast<int>(op));
  if (it == factors_.end())
    return invalid_argument("operation {} is none of sum, prod, max, min, avg (0 to 4) and was not made by "
                            "tuttiRedOpCreatePreMulSum on this communicator",
                            static_cast<int>(op));
  return it->second;
}

// ---- registered buffers

Status Communicator::register_buffer(void* buffer, size_t bytes, void** handle) {
  std::lock_guard lock(registered_mutex_);
  auto entry = std::make_unique<RegisteredBuffer>(RegisteredBuffer{buffer, bytes});
  *handle = entry.get();
  registered_[*handle] = std::move(entry);
  return {};
}

Status Communicator::deregister_buffer(void* handle) {
  std::lock_guard lock(registered_mutex_);
  if (registered_.erase(handle) == 0)
    return invalid_argument("{} is no handle that tuttiCommRegister gave for this communicator", handle);
  return {};
}

}  // namespace tutti
