#include "cuda/block.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "cuda/port.h"

namespace tutti::dev {
namespace {

// Kernels keep their tiles in registers and shared memory; sanitizers' frames are several times larger.
constexpr size_t kStackBytes = 128 << 10;

thread_local Block* running = nullptr;

}  // namespace

struct Block::Thread {
  Block* block = nullptr;
  int number = 0;
  bool done = true;
  uint64_t named_generation[kNamedBarriers] = {};
  uint64_t warp_generation = 0;
  std::unique_ptr<Context> context;
};

Block::Block(int threads)
    : threads_(threads),
      scheduler_(std::make_unique<Context>()),
      warps_(static_cast<size_t>((threads + kWarpThreads - 1) / kWarpThreads)),
      exchange_(static_cast<size_t>(threads)) {
  for (int i = 0; i < threads; ++i) {
    auto made = std::make_unique<Thread>();
    made->block = this;
    made->number = i;
    made->context = std::make_unique<Context>(kStackBytes, &Block::fiber, made.get());
    fibers_.push_back(std::move(made));
  }
}

Block::~Block() { std::free(late_); }

// Runs one body after another, as often as the block is run.
TUTTI_SCHEDULER void Block::fiber(void* thread) {
  auto& self = *static_cast<Thread*>(thread);
  for (;;) {
    self.block->body_(self.block->argument_);
    self.done = true;
    --self.block->live_;
    ++self.block->events_;
    // In order: who waits for the kernel's end sees all that it did.
    Context::change(*self.context, *self.block->scheduler_, true);
  }
}

TUTTI_SCHEDULER Block& Block::current() { return *running; }
// What the scheduler writes is read by fibers without an order that ThreadSanitizer knows of.
TUTTI_SCHEDULER int Block::tid() const { return current_; }
TUTTI_SCHEDULER int Block::bid() const { return place_.block; }
TUTTI_SCHEDULER int Block::nblocks() const { return place_.blocks; }
TUTTI_SCHEDULER bool Block::delays() const { return weather_.delay_stores; }
TUTTI_SCHEDULER void Block::note_event() { ++events_; }

TUTTI_SCHEDULER void Block::run(Place place, const Weather& weather, void (*body)(const void*), const void* argument) {
  place_ = place;
  weather_ = weather;
  rng_ = Rng(weather.seed + static_cast<uint64_t>(place.block));
  body_ = body;
  argument_ = argument;
  running = this;
  live_ = threads_;
  // A kernel that ended early may have left barriers half full.
  for (Barrier& barrier : named_) barrier.arrived.store(0, std::memory_order_relaxed);
  for (auto& votes : votes_) votes.store(0, std::memory_order_relaxed);
  for (Barrier& barrier : warps_) barrier.arrived.store(0, std::memory_order_relaxed);
  for (auto& thread : fibers_) {
    thread->done = false;
    std::fill(std::begin(thread->named_generation), std::end(thread->named_generation), uint64_t{0});
    thread->warp_generation = 0;
  }
  std::vector<bool> begun(static_cast<size_t>(threads_), false);
  const auto count = static_cast<size_t>(threads_);
  while (live_ > 0) {
    const uint64_t before = events_;
    const size_t first = rng_.below(count);
    const bool backwards = rng_.below(2) == 1;
    for (size_t i = 0; i < count; ++i) {
      const size_t t = backwards ? (first + count - i) % count : (first + i) % count;
      Thread& thread = *fibers_[t];
      if (thread.done) continue;
      current_ = static_cast<int>(t);
      // In order at the first switch only: the launch comes before the kernel.
      const bool orders = !begun[t];
      begun[t] = true;
      Context::change(*scheduler_, *thread.context, orders);
    }
    if (weather_.delay_stores) before == events_ ? flush_stores() : flush_some();
    if (before == events_) ::sched_yield();
  }
  flush_stores();
  running = nullptr;
}

TUTTI_SCHEDULER void Block::yield() {
  Thread& self = *fibers_[static_cast<size_t>(current_)];
  Context::change(*self.context, *scheduler_, false);
}

void Block::wait_for(Barrier& barrier, uint64_t& generation, int threads) {
  const uint64_t target = ++generation * static_cast<uint64_t>(threads);
  // Release: what this thread did comes before what the others do after the barrier. Acquire, in the loop: theirs.
  barrier.arrived.fetch_add(1, std::memory_order_acq_rel);
  while (barrier.arrived.load(std::memory_order_acquire) < target) yield();
}

void Block::wait_at(int barrier, int threads) {
  if (barrier == 0) {
    (void)wait_and_vote(false);
    return;
  }
  note_event();
  wait_for(named_[barrier], fibers_[static_cast<size_t>(tid())]->named_generation[barrier], threads);
}

bool Block::wait_and_vote(bool mine) {
  note_event();
  uint64_t& generation = fibers_[static_cast<size_t>(tid())]->named_generation[0];
  const uint64_t number = generation + 1;
  // Relaxed, all three: the barrier orders them.
  votes_[(number + 1) % 3].store(0, std::memory_order_relaxed);
  if (mine) votes_[number % 3].fetch_or(1, std::memory_order_relaxed);
  wait_for(named_[0], generation, threads_);
  return votes_[number % 3].load(std::memory_order_relaxed) != 0;
}

void Block::wait_at_warp() {
  note_event();
  const int warp = tid() / kWarpThreads;
  wait_for(warps_[static_cast<size_t>(warp)], fibers_[static_cast<size_t>(tid())]->warp_generation,
           std::min(kWarpThreads, threads_ - warp * kWarpThreads));
}

TUTTI_SCHEDULER void Block::store_late(void* to, const void* from, size_t bytes) {
  for (size_t done = 0; done < bytes; done += sizeof(uint64_t)) {
    LateStore store{static_cast<std::byte*>(to) + done, 0, std::min(sizeof(uint64_t), bytes - done)};
    std::memcpy(&store.bits, static_cast<const std::byte*>(from) + done, store.bytes);
    keep_late(store);
  }
}

TUTTI_SCHEDULER void Block::keep_late(const LateStore& store) {
  if (late_count_ == late_room_) {
    late_room_ = late_room_ == 0 ? 1024 : 2 * late_room_;
    void* const grown = std::realloc(late_, late_room_ * sizeof(LateStore));
    if (!grown) throw std::bad_alloc();
    late_ = static_cast<LateStore*>(grown);
  }
  late_[late_count_++] = store;
}

namespace {

// One unit becomes visible whole where it has 8 bytes, as on a link.
TUTTI_SCHEDULER void perform(std::byte* to, uint64_t bits, size_t bytes) {
  if (bytes == sizeof bits && reinterpret_cast<uintptr_t>(to) % sizeof bits == 0)
    __atomic_store_n(reinterpret_cast<uint64_t*>(to), bits, __ATOMIC_RELAXED);
  else std::memcpy(to, &bits, bytes);
}

}  // namespace

TUTTI_SCHEDULER void Block::flush_stores() {
  for (size_t i = 0; i < late_count_; ++i) perform(late_[i].to, late_[i].bits, late_[i].bytes);
  late_count_ = 0;
}

// A drawn one of those to different addresses: none may overtake another to its own address.
TUTTI_SCHEDULER void Block::flush_some() {
  if (late_count_ == 0) return;
  const size_t chosen = rng_.below(late_count_);
  const LateStore store = late_[chosen];
  for (size_t i = 0; i < chosen; ++i)
    if (late_[i].to == store.to) return;
  perform(store.to, store.bits, store.bytes);
  for (size_t i = chosen + 1; i < late_count_; ++i) late_[i - 1] = late_[i];
  --late_count_;
}

}  // namespace tutti::dev
