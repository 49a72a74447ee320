#include "plan/contract.h"

#include <algorithm>

namespace tutti {

Shape as_verified(const Shape& shape) {
  Shape s = shape;
  if (shape.collective == Collective::barrier) s.collective = Collective::all_reduce;
  if (shape.collective == Collective::send || shape.collective == Collective::recv)
    s = {Collective::broadcast, Rank{2}, Rank{0}, shape.lanes};
  return s;
}

Contract::Contract(const Shape& shape, uint32_t chunks, bool in_place)
    : shape_(as_verified(shape)),
      grid_(grid_of(shape_.collective, shape_.nranks, chunks)),
      chunks_(chunks),
      pair_(shape.collective == Collective::send || shape.collective == Collective::recv),
      in_place_(in_place),
      reduces_(is_reduction(shape_.collective)),
      scratch_base_(in_place ? std::max(in_chunks(), out_chunks()) : in_chunks() + out_chunks()) {}

bool Contract::has_in(Rank rank) const {
  const bool root_only = shape_.collective == Collective::broadcast || shape_.collective == Collective::scatter;
  return !root_only || rank == shape_.root;
}

bool Contract::has_out(Rank rank) const {
  if (pair_) return rank != shape_.root;
  const bool root_only = shape_.collective == Collective::reduce || shape_.collective == Collective::gather;
  return !root_only || rank == shape_.root;
}

uint32_t Contract::cell(Rank rank, Buffer buffer, uint32_t chunk) const {
  if (buffer == Buffer::scratch) return scratch_base_ + chunk;
  if (!in_place_) return buffer == Buffer::in ? chunk : in_chunks() + chunk;
  // In place the narrow buffer is the rank's own block of the wide one.
  const uint32_t blocks = buffer == Buffer::in ? grid_.in_blocks : grid_.out_blocks;
  const bool narrow = blocks < std::max(grid_.in_blocks, grid_.out_blocks);
  return narrow ? rank * grid_.chunks_per_block + chunk : chunk;
}

uint32_t Contract::size_key(Rank rank, Buffer buffer, uint32_t chunk) const {
  const uint32_t per_block = grid_.chunks_per_block;
  if (shape_.collective == Collective::all_to_all) {
    // Each pair (sender, receiver) has a block size of its own.
    const uint32_t block = chunk / per_block, place = chunk % per_block, n = shape_.nranks;
    const uint32_t pair = buffer == Buffer::out ? block * n + rank : rank * n + block;
    return pair * per_block + place;
  }
  if (buffer == Buffer::scratch) return chunk % chunks_;
  const bool wide_in = grid_.in_blocks >= grid_.out_blocks, wide_out = grid_.out_blocks >= grid_.in_blocks;
  const bool narrow = (buffer == Buffer::in && !wide_in) || (buffer == Buffer::out && !wide_out);
  return narrow ? rank * per_block + chunk : chunk;
}

}  // namespace tutti
