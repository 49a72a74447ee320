// Distance: how long a cache line takes from one processor to another, one way.
//
// Two threads or processes, each bound to its processor, write a counter in turns; half of a round trip is one way. On
// a virtual machine the distance changes within seconds, as the host moves its processors about; so it is measured
// before and after every repetition (0.1 to 0.4 ms each), and only repetitions at the same distance are compared.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>
#include <string>

namespace tutti::bench {

inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Alone, also for the prefetcher of neighbouring lines. Zeros are its initial state, in a file of zeros too.
struct alignas(256) Ball {
  std::atomic<uint32_t> value{0};
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

class Distance {
 public:
  static constexpr int kBatches = 7;
  static constexpr uint32_t kRoundTrips = 60;

  // Side 0 or 1 of a ball that both see; any other side only watches. Both sides must measure equally often.
  Distance(Ball* ball, int side) : ball_(ball), side_(side) {}

  // The ball lies in a file of a page of zeros, which all sides map. Null: it cannot be mapped.
  static Ball* map(const std::string& file) {
    const int fd = open(file.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) return nullptr;
    void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return memory == MAP_FAILED ? nullptr : static_cast<Ball*>(memory);
  }

  // Nanoseconds one way, the median of the batches, at side 0; 0 elsewhere. Both sides spin until the other has come.
  double measure_ns() {
    std::array<double, kBatches> one_way_ns{};
    for (double& batch : one_way_ns) batch = side_ == 0 ? serve() : answer();
    std::nth_element(one_way_ns.begin(), one_way_ns.begin() + kBatches / 2, one_way_ns.end());
    return one_way_ns[kBatches / 2];
  }

 private:
  // Release and acquire: as a message would be passed.
  double serve() {
    const double start = now_seconds();
    for (uint32_t i = 0; i < kRoundTrips; ++i) {
      ball_->value.store(++turn_, std::memory_order_release);
      await(++turn_);
    }
    return (now_seconds() - start) * 1e9 / (2 * kRoundTrips);
  }
  double answer() {
    for (uint32_t i = 0; side_ == 1 && i < kRoundTrips; ++i) {
      await(++turn_);
      ball_->value.store(++turn_, std::memory_order_release);
    }
    return 0;
  }
  void await(uint32_t turn) const {
    while (ball_->value.load(std::memory_order_acquire) != turn) {
    }
  }

  Ball* ball_;
  int side_;
  uint32_t turn_ = 0;
};

}  // namespace tutti::bench
