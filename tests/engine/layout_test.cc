// Chunks cover each block exactly once, tiles cover chunks, and long chunks begin on cache lines.
#include "engine/layout.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace tutti {
namespace {

constexpr uint64_t kCounts[] = {0, 1, 2, 3, 7, 8, 63, 64, 65, 100, 127, 511, 512, 513, 1000, 4096, 65537, 1'000'003};
constexpr uint32_t kChunksPerBlock[] = {1, 2, 3, 4, 5, 7, 8, 16, 64, 127, 1000};
constexpr uint32_t kElementBytes[] = {1, 2, 4, 8};

std::string what(uint64_t count, uint32_t chunks, uint32_t element_bytes) {
  return "count " + std::to_string(count) + ", " + std::to_string(chunks) + " chunks, " +
         std::to_string(element_bytes) + " bytes each";
}

// The chunks of block `index` follow each other without a hole and end where it ends.
void expect_covered(const Layout& layout, uint32_t index, uint32_t chunks_per_block) {
  const Extent block = layout.block(index);
  uint64_t next = block.offset;
  for (uint32_t c = 0; c < chunks_per_block; ++c) {
    const Extent chunk = layout.chunk(ChunkId{index * chunks_per_block + c});
    ASSERT_EQ(chunk.offset, next) << "chunk " << c << " of block " << index;
    ASSERT_LE(chunk.count, layout.longest_chunk()) << "chunk " << c << " of block " << index;
    next += chunk.count;
  }
  ASSERT_EQ(next, block.offset + block.count) << "block " << index;
}

TEST(Layout, ChunksCoverEqualBlocks) {
  for (const uint64_t count : kCounts)
    for (const uint32_t chunks : kChunksPerBlock)
      for (const uint32_t element_bytes : kElementBytes)
        for (const uint32_t blocks : {1u, 3u}) {
          SCOPED_TRACE(what(count, chunks, element_bytes));
          const Layout layout({count, {}, {}}, blocks, chunks, element_bytes);
          for (uint32_t b = 0; b < blocks; ++b) {
            ASSERT_EQ(layout.block(b).offset, b * count);
            ASSERT_EQ(layout.block(b).count, count);
            expect_covered(layout, b, chunks);
          }
        }
}

TEST(Layout, ChunksCoverTheBlocksOfATable) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    const uint32_t blocks = 1 + static_cast<uint32_t>(rng.below(9));
    const uint32_t chunks = kChunksPerBlock[rng.below(std::size(kChunksPerBlock))];
    std::vector<uint64_t> counts(blocks), offsets(blocks);
    for (uint32_t b = 0; b < blocks; ++b) {
      counts[b] = kCounts[rng.below(std::size(kCounts))];
      offsets[b] = rng.below(1 << 20);
    }
    const uint32_t element_bytes = kElementBytes[rng.below(4)];
    SCOPED_TRACE("round " + std::to_string(round));
    const Layout scattered({0, counts, offsets}, blocks, chunks, element_bytes);
    const Layout adjacent({0, counts, {}}, blocks, chunks, element_bytes);
    uint64_t next = 0;
    for (uint32_t b = 0; b < blocks; ++b) {
      ASSERT_EQ(scattered.block(b).offset, offsets[b]);
      ASSERT_EQ(adjacent.block(b).offset, next);
      next += counts[b];
      expect_covered(scattered, b, chunks);
      expect_covered(adjacent, b, chunks);
    }
  }
}

// Both ends of a message compute its size from the block's length alone, whatever else their tables hold.
TEST(Layout, ChunkSizesDependOnTheBlockAlone) {
  const std::vector<uint64_t> ragged = {100'000, 5, 0, 4096};
  for (const uint32_t element_bytes : kElementBytes) {
    const Layout table({0, ragged, {}}, 4, 6, element_bytes);
    for (uint32_t b = 0; b < 4; ++b) {
      const Layout alone({ragged[b], {}, {}}, 1, 6, element_bytes);
      for (uint32_t c = 0; c < 6; ++c)
        EXPECT_EQ(table.chunk(ChunkId{b * 6 + c}).count, alone.chunk(ChunkId{c}).count) << "block " << b << " " << c;
    }
  }
}

TEST(Layout, NoRankIsLeftWithoutWorkWhereThereIsEnough) {
  for (const uint32_t element_bytes : kElementBytes)
    for (const uint32_t chunks : {2u, 8u, 64u}) {
      const uint64_t count = uint64_t{64} * chunks * chunks;
      const Layout layout({count, {}, {}}, 1, chunks, element_bytes);
      for (uint32_t c = 0; c < chunks; ++c) EXPECT_GT(layout.chunk(ChunkId{c}).count, 0u) << c << " of " << chunks;
    }
}

TEST(Layout, LongChunksBeginOnLines) {
  for (const uint32_t element_bytes : kElementBytes)
    for (const uint32_t chunks : {2u, 3u, 7u, 64u}) {
      const uint64_t count = 512 * chunks / element_bytes + 13;
      const Layout layout({count, {}, {}}, 1, chunks, element_bytes);
      for (uint32_t c = 0; c < chunks; ++c) {
        const Extent chunk = layout.chunk(ChunkId{c});
        if (chunk.count == 0) continue;
        EXPECT_EQ(chunk.offset * element_bytes % 64, 0u) << "chunk " << c << " of " << chunks;
      }
    }
}

TEST(Tile, TilesCoverAChunk) {
  for (const uint64_t count : {0, 1, 5, 64, 1000})
    for (const uint64_t tile_count : {1, 3, 64, 1000, 5000}) {
      const Extent chunk{17, static_cast<uint64_t>(count)};
      uint64_t next = chunk.offset;
      for (uint64_t tile = 0; tile * tile_count < static_cast<uint64_t>(count) || tile == 0; ++tile) {
        const Extent part = tile_of(chunk, tile, tile_count);
        ASSERT_EQ(part.offset, next);
        ASSERT_LE(part.count, static_cast<uint64_t>(tile_count));
        next += part.count;
      }
      EXPECT_EQ(next, chunk.offset + chunk.count);
      // Lanes whose chunks are shorter go through the longest chunk's tiles too.
      EXPECT_EQ(tile_of(chunk, count / tile_count + 1, tile_count).count, 0u);
      EXPECT_EQ(tile_of(chunk, count / tile_count + 100, tile_count).count, 0u);
    }
}

}  // namespace
}  // namespace tutti
