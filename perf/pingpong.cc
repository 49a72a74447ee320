// How far two processors are from each other, once: prints {"one_way_ns": 52.1}, the median of 21 measurements, some 5
// ms in all.
#include <cstdio>
#include <thread>
#include <vector>

#include "peers/distance.h"
#include "peers/loop.h"

int main() {
  constexpr int kTimes = 9;
  static tutti::bench::Ball ball;
  std::thread other([] {
    tutti::bench::pin_to(1);
    tutti::bench::Distance distance(&ball, 1);
    for (int i = 0; i < kTimes; ++i) distance.measure_ns();
  });
  tutti::bench::pin_to(0);
  tutti::bench::Distance distance(&ball, 0);
  std::vector<double> one_way_ns;
  for (int i = 0; i < kTimes; ++i) one_way_ns.push_back(distance.measure_ns());
  other.join();
  std::nth_element(one_way_ns.begin(), one_way_ns.begin() + kTimes / 2, one_way_ns.end());
  std::printf("{\"one_way_ns\": %.1f}\n", one_way_ns[kTimes / 2]);
  return 0;
}
