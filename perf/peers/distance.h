// Distance: how long a cache line takes from one processor to another, one way.
//
// Two threads or processes, each bound to its processor, write a counter in turns; half of a round trip is one way. On
// a virtual machine the distance changes within seconds, as the host moves its processors about; so it is measured
// before and after every repetition (0.05 to 0.25 ms each), and only repetitions at the same distance are compared.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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
  static constexpr int kMostBatches = 48;
  static constexpr uint32_t kRoundTrips = 8;
  // Ten times what it takes: where somebody else has a core, it is cut short.
  static constexpr double kMostSeconds = 0.004;

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
    if (side_ == 1) answer();
    return side_ == 0 ? serve() : 0;
  }

 private:
  static constexpr uint32_t kLast = 1u << 31;  // with this bit a serve is the last, and its answer the end

  double serve() {
    play(0);  // the other has come
    std::vector<double> one_way_ns;
    const double start = now_seconds();
    // A first round trip by itself: where somebody else has a core, it takes milliseconds and tells all there is to
    // know.
    for (double last = start; one_way_ns.size() < kMostBatches && last - start < kMostSeconds;) {
      const uint32_t trips = one_way_ns.empty() ? 1 : kRoundTrips;
      for (uint32_t i = 0; i < trips; ++i) play(0);
      const double now = now_seconds();
      one_way_ns.push_back((now - last) * 1e9 / (2 * trips));
      last = now;
    }
    play(kLast);
    const auto middle = one_way_ns.begin() + static_cast<ptrdiff_t>(one_way_ns.size() / 2);
    std::nth_element(one_way_ns.begin(), middle, one_way_ns.end());
    return *middle;
  }

  // One round trip. Release and acquire: as a message would be passed.
  void play(uint32_t bit) {
    turn_ = (turn_ + 1) & ~kLast;
    ball_->value.store(turn_ | bit, std::memory_order_release);
    turn_ = (turn_ + 1) & ~kLast;
    while (ball_->value.load(std::memory_order_acquire) != turn_) {
    }
  }

  void answer() {
    for (uint32_t served = 0; (served & kLast) == 0;) {
      turn_ = (turn_ + 1) & ~kLast;
      do {
        served = ball_->value.load(std::memory_order_acquire);
      } while ((served & ~kLast) != turn_);
      turn_ = (turn_ + 1) & ~kLast;
      ball_->value.store(turn_, std::memory_order_release);
    }
  }

  Ball* ball_;
  int side_;
  uint32_t turn_ = 0;
};

}  // namespace tutti::bench
