// Buffers: the memory of one rank in one Call: its input and output, guard zones around them, gaps between their
// blocks, and what all of it must hold afterwards.
#pragma once

#include <vector>

#include "tests/engine/call.h"

namespace tutti {

// Where the blocks of one buffer lie, in elements from its start.
struct Table {
  std::vector<uint64_t> counts, offsets;
  uint64_t extent() const;  // end of the last block that is not empty
};

// Whether that buffer is n blocks, one per rank, rather than one.
bool has_many_blocks(Collective collective, Buffer buffer);
// Whose input block becomes block `block` of rank `self`'s output; in a reduction every rank's block of that number.
struct Origin {
  Rank rank;
  uint32_t block = 0;
};
Origin origin_of(const Call& call, Rank nranks, Rank self, uint32_t block);

class Buffers {
 public:
  // Fills everything with drawn bytes, then the input with the call's data.
  Buffers(const Call& call, Rank nranks, Rank self);
  Buffers(Buffers&&) = default;

  const std::byte* in() const { return null_in_ ? nullptr : memory_[0].data() + in_start_; }
  std::byte* out() { return null_out_ ? nullptr : memory_[out_memory()].data() + out_start_; }
  const Table& in_table() const { return in_table_; }
  const Table& out_table() const { return out_table_; }
  bool has_in() const { return has_in_; }
  bool has_out() const { return has_out_; }

  const std::byte* in_block(uint32_t block) const { return memory_[0].data() + in_start_ + bytes(in_table_, block); }
  // Says what an output block must hold; what nobody says anything of must stay as it is.
  void expect(uint32_t block, const std::byte* data);
  std::vector<std::byte> out_block(uint32_t block);

  // An error names the first byte that is not as expected.
  Status check() const;
  // Makes nonsense of everything.
  void overwrite();

 private:
  size_t out_memory() const { return in_place_ ? 0 : 1; }
  size_t bytes(const Table& table, uint32_t block) const { return table.offsets[block] * element_bytes_; }
  void place(Rng& rng, Collective collective, Rank self);
  void fill(Rng& rng, const Call& call);

  size_t element_bytes_;
  bool has_in_, has_out_, in_place_;
  bool null_in_, null_out_;
  Table in_table_, out_table_;
  size_t in_start_ = 0, out_start_ = 0;
  std::vector<std::byte> memory_[2];  // input and output; in place: both in the first
  std::vector<std::byte> expected_[2];
};

}  // namespace tutti
