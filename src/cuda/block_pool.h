// BlockPool: OS threads that run blocks of simulated kernels, kept between launches as making fibers is slow (some
// 2 ms each under ThreadSanitizer). It grows to the most blocks that ever ran at once: all blocks of a launch run, or
// kernels that wait for each other would wait for ever.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"
#include "cuda/block.h"
#include "cuda/program.h"

namespace tutti {

using KernelBody = void (*)(const void* launch);

// One launch. Kept alive by its blocks and by whoever asks for its end.
struct PooledLaunch {
  KernelBody body = nullptr;
  dev::Launch arguments;
  dev::Weather weather;
  uint32_t blocks = 0;
  int event_descriptor = -1;
  // Acquire-release: who sees 0 sees what the blocks wrote.
  std::atomic<uint32_t> left{0};
};

class BlockPool {
 public:
  explicit BlockPool(int threads_per_block) : threads_per_block_(threads_per_block) {}
  // Waits for the blocks under way, which must come to an end.
  ~BlockPool();

  // Errors: tuttiSystemError when the system has no more threads; then no block runs.
  Status launch(std::shared_ptr<PooledLaunch> launch);

 private:
  void work();

  const int threads_per_block_;
  std::mutex mutex_;
  std::condition_variable queued_;
  struct Job {
    std::shared_ptr<PooledLaunch> launch;
    uint32_t block;
  };
  std::deque<Job> queue_;
  size_t busy_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace tutti
