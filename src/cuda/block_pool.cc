#include "cuda/block_pool.h"

#include <unistd.h>

#include <system_error>
#include <utility>

namespace tutti {

BlockPool::~BlockPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  queued_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

Status BlockPool::launch(std::shared_ptr<PooledLaunch> launch) {
  launch->left.store(launch->blocks, std::memory_order_relaxed);  // nobody else has it yet
  const std::lock_guard lock(mutex_);
  while (workers_.size() < busy_ + queue_.size() + launch->blocks) {
    try {
      workers_.emplace_back([this] { work(); });
    } catch (const std::system_error& e) {
      return system_error("starting a thread for a block", e.code().value(), "raise ulimit -u, or set TUTTI_LANES=1");
    }
  }
  for (uint32_t b = 0; b < launch->blocks; ++b) queue_.push_back({launch, b});
  queued_.notify_all();
  return {};
}

void BlockPool::work() {
  dev::Block block(threads_per_block_);
  std::unique_lock lock(mutex_);
  for (;;) {
    queued_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Job job = std::move(queue_.front());
    queue_.pop_front();
    ++busy_;
    lock.unlock();
    PooledLaunch& launch = *job.launch;
    block.run({static_cast<int>(job.block), static_cast<int>(launch.blocks)}, launch.weather, launch.body,
              &launch.arguments);
    if (launch.left.fetch_sub(1, std::memory_order_acq_rel) == 1 && launch.event_descriptor >= 0) {
      const uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(launch.event_descriptor, &one, sizeof one);
    }
    job.launch.reset();
    lock.lock();
    --busy_;
  }
}

}  // namespace tutti
