// Stream: an in-order queue of work, run by one worker thread of its own.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "base/status.h"

namespace tutti {

class Stream {
 public:
  using Work = std::function<Status()>;
  static Result<std::unique_ptr<Stream>> create();
  // Waits for all that was issued.
  ~Stream();

  void enqueue(Work work);
  // Blocks until all is done; the first error since the last call.
  Status synchronize();
  bool idle() const;

 private:
  Stream() = default;
  void run();

  mutable std::mutex mutex_;
  std::condition_variable issued_;  // for the worker
  std::condition_variable ended_;   // for those who synchronize
  std::deque<Work> queue_;
  bool working_ = false;
  bool stopping_ = false;
  Status error_;
  std::thread worker_;
};

}  // namespace tutti
