// Check: fills the memory of a call, and afterwards compares every byte of it with what must be there.
//
// Not only the receive part: the guard zones around it, an out-of-place input, the receive buffer of a rank that is not
// the root and the parts of an in-place window that belong to others must be as they were.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/buffer.h"
#include "perf/collective.h"
#include "perf/pattern.h"

namespace tutti::perf {

// What one call is about; all ranks must agree on everything but job.rank.
struct CheckedCall {
  Job job;
  tuttiDataType_t type;
  Window window;
  std::vector<Block> blocks;  // ascending in recv_first
  bool in_place;
};

struct Wrong {
  uint64_t elements = 0;       // wrong in the receive part
  uint64_t out_of_bounds = 0;  // changed where nothing may change
  std::string first;           // the first one in words; empty when there is none
  uint64_t total() const { return elements + out_of_bounds; }
};

// Where the two parts of a call lie. Out of place: two buffers; in place: both in `recv`.
struct Parts {
  size_t send_first = 0, recv_first = 0;  // elements from data() of their buffer
};
Parts parts_of(const CheckedCall& call);

// Writes the input, and a background pattern over everything else in both buffers.
void fill(const CheckedCall& call, const Pattern& pattern, Buffer& send, Buffer& recv);
// Compares both buffers with what they must hold after the call.
Wrong find_wrong(const CheckedCall& call, const Pattern& pattern, const Buffer& send, const Buffer& recv);

}  // namespace tutti::perf
