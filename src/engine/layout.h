// Layout: where the chunks and tiles of a plan lie in a caller's buffer.
//
// A buffer is blocks (plan.h's Grid); blocks are equally long and adjacent, or given by a table (the V-variants). Each
// block is cut into chunks_per_block chunks of nearly equal size, cut on 64-byte boundaries where chunks are long. Both
// ends of a message compute its size from the same block length, so they agree without talking.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/strong_int.h"

namespace tutti {

// In elements.
struct Extent {
  uint64_t offset = 0;
  uint64_t count = 0;
};

// From one chunk of a block of `block_count` elements to the next: aligned to lines where chunks are long.
constexpr uint64_t chunk_stride(uint64_t block_count, uint32_t chunks_per_block, uint32_t element_bytes) {
  constexpr uint64_t kLineBytes = 64;
  constexpr uint64_t kAlignFromBytes = 8 * kLineBytes;  // below this, aligning would leave some ranks without work
  const uint64_t stride = (block_count + chunks_per_block - 1) / chunks_per_block;
  if (stride * element_bytes < kAlignFromBytes) return stride;
  const uint64_t line = kLineBytes / element_bytes;
  return (stride + line - 1) / line * line;
}

struct BlockTable {
  uint64_t block_count = 0;            // elements of each block, where there is no table
  std::span<const uint64_t> counts;    // else: elements of block b
  std::span<const uint64_t> offsets;   // and where it starts; empty: back to back
};

class Layout {
 public:
  Layout() = default;
  Layout(BlockTable blocks, uint32_t block_number, uint32_t chunks_per_block, uint32_t element_bytes)
      : blocks_(blocks), block_number_(block_number), chunks_per_block_(chunks_per_block), element_bytes_(element_bytes) {}

  Extent block(uint32_t index) const;
  Extent chunk(ChunkId id) const {
    if (chunks_per_block_ == 1 && blocks_.counts.empty())  // what small operations have
      return {id * blocks_.block_count, blocks_.block_count};
    return cut_chunk(id);
  }
  // One past the last element of all blocks.
  uint64_t end() const;
  // The longest chunk, in elements.
  uint64_t longest_chunk() const;

 private:
  Extent cut_chunk(ChunkId id) const;

  BlockTable blocks_;
  uint32_t block_number_ = 1;
  uint32_t chunks_per_block_ = 1;
  uint32_t element_bytes_ = 1;
};

// The part of `chunk` in tile number `tile`; empty beyond its end.
inline Extent tile_of(const Extent& chunk, uint64_t tile, uint64_t tile_count) {
  const uint64_t begin = std::min(tile * tile_count, chunk.count);
  return {chunk.offset + begin, std::min(tile_count, chunk.count - begin)};
}

}  // namespace tutti
