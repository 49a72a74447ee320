#include "engine/layout.h"

namespace tutti {
Extent Layout::block(uint32_t index) const {
  if (blocks_.counts.empty()) return {index * blocks_.block_count, blocks_.block_count};
  const uint64_t count = blocks_.counts[index];
  if (!blocks_.offsets.empty()) return {blocks_.offsets[index], count};
  uint64_t offset = 0;
  for (uint32_t b = 0; b < index; ++b) offset += blocks_.counts[b];
  return {offset, count};
}

uint64_t Layout::end() const {
  if (blocks_.counts.empty()) return block_number_ * blocks_.block_count;
  uint64_t end = 0;
  for (uint32_t b = 0; b < block_number_; ++b) {
    const Extent e = block(b);
    end = std::max(end, e.offset + e.count);
  }
  return end;
}

Extent Layout::cut_chunk(ChunkId id) const {
  const Extent whole = block(id / chunks_per_block_);
  if (chunks_per_block_ == 1) return whole;
  const uint64_t stride = chunk_stride(whole.count, chunks_per_block_, element_bytes_);
  const uint64_t begin = std::min<uint64_t>((id % chunks_per_block_) * stride, whole.count);
  return {whole.offset + begin, std::min(stride, whole.count - begin)};
}

uint64_t Layout::longest_chunk() const {
  uint64_t longest = blocks_.block_count;
  for (uint64_t count : blocks_.counts) longest = std::max(longest, count);
  return std::min(longest, chunk_stride(longest, chunks_per_block_, element_bytes_));
}

}  // namespace tutti
