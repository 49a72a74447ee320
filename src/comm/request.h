// Request: one operation as the caller asked for it, checked and in C++ terms. What the API makes, groups collect, streams
// queue and a communicator runs.
#pragma once

#include <memory>
#include <vector>

#include "base/types.h"
#include "engine/layout.h"
#include "plan/plan.h"

namespace tutti {

struct Fusion;

// All of a request but its buffers and tables.
struct RequestShape {
  Collective collective = Collective::all_reduce;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  Rank root;                 // or the peer of send and recv
  // Elements of each block of in and out; for the V-variants from the tables.
  uint64_t in_block_count = 0, out_block_count = 0;
  uint64_t scalar_bits = 0;  // premul_sum
  bool operator==(const RequestShape&) const = default;
};

struct Request : RequestShape {
  using Shape = RequestShape;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;

  // The V-variants: n counts and n offsets for in, then for out; empty where that buffer is one block or uniform.
  struct Tables {
    std::vector<uint64_t> in_counts, in_offsets, out_counts, out_offsets;
  };
  std::shared_ptr<const Tables> tables;
  bool variable = false;

  // Set where this all_reduce stands for several small ones of a group.
  std::shared_ptr<Fusion> fusion;

  bool point_to_point() const { return collective == Collective::send || collective == Collective::recv; }
  BlockTable in_blocks() const;
  BlockTable out_blocks() const;
  // Of the larger buffer, the same on all ranks: for AllToAllV, where each rank knows only its own part, 0.
  uint64_t wide_bytes(Rank nranks) const;
};

// Several small AllReduces of one group as one: their inputs are gathered into `memory` before, their outputs scattered
// from it after.
struct Fusion {
  std::vector<Request> parts;
  std::vector<std::byte> memory;
  void gather();
  void scatter() const;
};
// Replaces runs of small AllReduces of equal type and operation by one each.
std::vector<Request> fuse_small_all_reduces(std::vector<Request> requests);

}  // namespace tutti
