#include "comm/stream.h"

#include <system_error>

#include "base/no_throw.h"

namespace tutti {

Result<std::unique_ptr<Stream>> Stream::create() {
  std::unique_ptr<Stream> stream(new Stream);
  try {
    stream->worker_ = std::thread([s = stream.get()] { s->run(); });
  } catch (const std::system_error& e) {
    return system_error("starting a stream's thread", e.code().value(), "raise the limit of processes (ulimit -u)");
  }
  return stream;
}

Stream::~Stream() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  issued_.notify_one();
  if (worker_.joinable()) worker_.join();
}

void Stream::enqueue(Work work) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  issued_.notify_one();
}

Status Stream::synchronize() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return queue_.empty() && !working_; });
  return std::exchange(error_, Status());
}

bool Stream::idle() const {
  std::lock_guard lock(mutex_);
  return queue_.empty() && !working_;
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    issued_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Work work = std::move(queue_.front());
    queue_.pop_front();
    working_ = true;
    lock.unlock();
    Status status = without_exceptions(work);
    work = nullptr;
    lock.lock();
    working_ = false;
    if (error_.ok()) error_ = std::move(status);
    if (queue_.empty()) ended_.notify_all();
  }
}

}  // namespace tutti
