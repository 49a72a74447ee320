// How far two processors are from each other: the time that one cache line takes from one to the other.
//
// Two threads, each bound to its processor, write a counter in turns. Half of a round trip is one way. On a virtual
// machine the distance may change from minute to minute, as the host moves its processors about; so it is measured
// beside every run, and only runs of the same distance are compared.
//   pingpong     prints {"one_way_ns": 52.1}: the median of 25 batches of 1000 round trips, some 10 ms in all
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "peers/loop.h"

namespace {

constexpr int kBatches = 25;
constexpr uint32_t kRoundTrips = 1000;

struct alignas(128) Line {  // alone, also for the prefetcher of neighbouring lines
  std::atomic<uint32_t> value{0};
};
Line line;

// Release and acquire: as a message would be passed.
void answer() {
  tutti::bench::pin_to(1);
  for (uint32_t i = 0; i < kBatches * kRoundTrips; ++i) {
    while (line.value.load(std::memory_order_acquire) != 2 * i + 1) {
    }
    line.value.store(2 * i + 2, std::memory_order_release);
  }
}

}  // namespace

int main() {
  std::thread other(answer);
  tutti::bench::pin_to(0);
  std::vector<double> one_way_ns;
  for (uint32_t i = 0; i < kBatches * kRoundTrips;) {
    const double start = tutti::bench::now_seconds();
    for (uint32_t end = i + kRoundTrips; i < end; ++i) {
      line.value.store(2 * i + 1, std::memory_order_release);
      while (line.value.load(std::memory_order_acquire) != 2 * i + 2) {
      }
    }
    one_way_ns.push_back((tutti::bench::now_seconds() - start) * 1e9 / (2 * kRoundTrips));
  }
  other.join();
  std::nth_element(one_way_ns.begin(), one_way_ns.begin() + kBatches / 2, one_way_ns.end());
  std::printf("{\"one_way_ns\": %.1f}\n", one_way_ns[kBatches / 2]);
  return 0;
}
