// A small seeded generator (SplitMix64, Steele, Lea and Flood 2014): the same seed gives the same run everywhere.
// Not for secrets; those come from base/secret.h.
#pragma once

#include <cstdint>

namespace tutti {

class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  // Uniform enough in [0, bound); bound > 0.
  uint64_t below(uint64_t bound) { return static_cast<uint64_t>((static_cast<Wide>(next()) * bound) >> 64); }

 private:
  __extension__ using Wide = unsigned __int128;
  uint64_t state_;
};

}  // namespace tutti
