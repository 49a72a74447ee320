// Pattern: inputs for which a collective has exactly one right answer, and that answer.
//
// Moved data (no operation): every rank's send buffer is a stream of hash bits of its own, so that any misplaced byte
// shows. Reduced data: the ranks' contributions at a position come from one of 64 *profiles*, drawn by a hash of the
// position, and rotated among the ranks by another. A profile holds n contributions such that the partial result over
// any subset of the ranks is exact in the type; so order, grouping and intermediate rounding cannot matter:
//   integers   sum, prod, mulsum: any bits, modulo 2^bits (prod: mostly odd factors, which never vanish);
//              avg: magnitudes that add up to less than the type holds
//   floats     sum, avg, mulsum: integers whose magnitudes add up to at most 2^significand bits (for float8e5m2: 8);
//              prod: signed powers of two in a narrow range, with as many factors of 3 as the significand holds
//              avg of float and double: all contributions are multiples of n, so that the quotient is exact too; the
//              narrower types divide in float32 and round once, as tutti.h says
//   max, min   any finite bits but -0
//   mulsum     rank r multiplies by scalar 1 + r % 2; contributions are even, so that odd ranks can put in the half
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "perf/element.h"

namespace tutti::perf {

// Immutable; threads may share one. Made in O(64 n); a megabyte of float inputs takes about a millisecond.
class Pattern {
 public:
  // Patterns of different seeds share nothing. operation none: moved data.
  Pattern(tuttiDataType_t type, Operation operation, int nranks, uint64_t seed);

  // Elements [first, first + count) of what rank `rank` sends, written to `out`.
  void input(int rank, size_t first, size_t count, void* out) const;
  // Elements [first, first + count) of the reduction over all ranks. Requires an operation.
  void result(size_t first, size_t count, void* out) const;

 private:
  template <class T, class Choose>
  void each(size_t first, size_t count, void* out, Choose choose) const;

  tuttiDataType_t type_;
  Operation operation_;
  uint32_t nranks_;
  uint64_t seed_;
  std::vector<uint64_t> contributions_[2];  // [rank % 2][profile * nranks + place]
  std::vector<uint64_t> results_;           // [profile]
};

// Bytes [first, first + bytes) of a stream of hash bits: moved data, and what memory holds before a call.
void fill_stream(uint64_t seed, size_t first, size_t bytes, void* out);

// This rank's factor of a mulsum: 1 or 2.
int mulsum_scalar(int rank);
uint64_t mulsum_scalar_bits(tuttiDataType_t type, int rank);

uint64_t mix(uint64_t value);  // a good 64-bit hash

}  // namespace tutti::perf
