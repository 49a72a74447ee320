// Block: a block of a kernel on the CPU: one OS thread, one fiber for each of its threads.
//
// The scheduler goes round the fibers in an order drawn from a seed; a fiber runs until it waits at a barrier or calls
// spin_hint(). When none of a block's fibers got anywhere the OS thread gives up its core, so that blocks that wait for
// each other may share few. 35 ns a switch, about 5 us a barrier of 128.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "cuda/fiber.h"

namespace tutti::dev {

// What a seed may do to the execution beyond the order of fibers.
struct Weather {
  uint64_t seed = 1;
  // Data stored with store_remote() and store_line() becomes visible late: up to the next store_release() of the block,
  // each unit of 8 bytes by itself. What a missing release would spoil then is spoilt.
  bool delay_stores = false;
};

class Block {
 public:
  explicit Block(int threads);
  ~Block();

  struct Place {
    int block = 0, blocks = 1;
  };
  // Runs body(argument) in all fibers until each has returned. On the OS thread that made the Block.
  void run(Place place, const Weather& weather, void (*body)(const void*), const void* argument);
  int threads() const { return threads_; }

  // ---- for port_fiber.h: the calling fiber's block. No order is made between fibers by these.
  static Block& current();
  int tid() const;
  int bid() const;
  int nblocks() const;
  void yield();
  struct Barrier {
    std::atomic<uint64_t> arrived{0};
  };
  static constexpr int kNamedBarriers = 16;  // 0: of the whole block
  void wait_at(int barrier, int threads);
  bool wait_and_vote(bool mine);
  void wait_at_warp();
  std::byte* exchange_place(int thread) { return exchange_[static_cast<size_t>(thread)].bytes; }
  void store_late(void* to, const void* from, size_t bytes);
  void flush_stores();
  bool delays() const;

 private:
  struct Thread;
  static void fiber(void* thread);
  void wait_for(Barrier& barrier, uint64_t& generation, int threads);
  void note_event();
  void flush_some();

  const int threads_;
  Place place_;
  Weather weather_;
  Rng rng_{1};
  void (*body_)(const void*) = nullptr;
  const void* argument_ = nullptr;
  std::unique_ptr<Context> scheduler_;
  std::vector<std::unique_ptr<Thread>> fibers_;
  int current_ = 0;
  int live_ = 0;
  uint64_t events_ = 0;  // arrivals and ends, to see whether anybody got anywhere
  Barrier named_[kNamedBarriers];
  // Votes at the block's barrier number g are in place g mod 3; who arrives at it clears the next place, which was last
  // read before all arrived at number g - 1, and is next written after all have arrived at g.
  std::atomic<uint32_t> votes_[3]{};
  std::vector<Barrier> warps_;
  struct alignas(16) Exchange {
    std::byte bytes[16];
  };
  std::vector<Exchange> exchange_;
  struct LateStore {
    std::byte* to;
    uint64_t bits;
    size_t bytes;
  };
  // By hand, since fibers and the scheduler change it without an order: what a vector does is checked for races, even where
  // its caller is not.
  void keep_late(const LateStore& store);
  LateStore* late_ = nullptr;
  size_t late_count_ = 0, late_room_ = 0;
};

}  // namespace tutti::dev
