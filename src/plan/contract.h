// Contract: what a collective asks of memory, apart from any algorithm: which chunks each rank owns, may read, may
// write and must fill, which of them are the same memory in an in-place call, and which have the same size.
//
// Memory is numbered in cells, one per chunk of each buffer; two names for the same memory have the same cell.
#pragma once

#include <cstdint>

#include "plan/machine.h"
#include "plan/plan.h"

namespace tutti {

// A barrier is verified as the all_reduce that it is, over nothing; send and recv as a broadcast from rank 0 to rank 1
// in which rank 0 has no out.
class Contract {
 public:
  // `chunks` is Plan::chunks, equal on all ranks. Requires in_place only where allows_in_place().
  Contract(const Shape& shape, uint32_t chunks, bool in_place);

  static bool allows_in_place(Collective collective) { return collective != Collective::all_to_all; }

  const Shape& shape() const { return shape_; }
  bool in_place() const { return in_place_; }
  bool reduces() const { return reduces_; }
  uint32_t chunks() const { return chunks_; }
  uint32_t chunks_per_block() const { return grid_.chunks_per_block; }
  uint32_t in_chunks() const { return grid_.in_blocks * grid_.chunks_per_block; }
  uint32_t out_chunks() const { return grid_.out_blocks * grid_.chunks_per_block; }

  // Whether `rank` has the buffer at all; others must not touch it.
  bool has_in(Rank rank) const;
  bool has_out(Rank rank) const;

  // Cells of one rank with that many scratch chunks, and the cell of a chunk, which must exist.
  uint32_t cell_count(uint32_t scratch_chunks) const { return scratch_base_ + scratch_chunks; }
  uint32_t cell(Rank rank, Buffer buffer, uint32_t chunk) const;

  // Equal keys: equal size, whatever the block sizes of the call are. Buffer::none means the wide buffer.
  uint32_t size_key(Rank rank, Buffer buffer, uint32_t chunk) const;

 private:
  Shape shape_;
  Grid grid_;
  uint32_t chunks_;
  bool pair_;  // send and recv
  bool in_place_, reduces_;
  uint32_t scratch_base_;
};

// What `shape` is verified as: barrier and the pair of send and recv are other names of simple collectives.
Shape as_verified(const Shape& shape);

// The k-th chunk of a span that begins at `first`.
inline uint32_t chunk_of_span(const Plan& plan, Buffer buffer, ChunkId first, uint32_t k) {
  const uint32_t modulus = buffer == Buffer::scratch ? plan.scratch_chunks : plan.chunks;
  const uint32_t chunk = first + k;
  return chunk < modulus ? chunk : chunk % modulus;
}

}  // namespace tutti
