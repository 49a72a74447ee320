// Fingerprint: the algebra that proves results. A value stands for what a chunk would hold, by two 64-bit numbers:
//   sum    of the contributions in it, whatever their order: fold adds. An own input enters as an odd multiple of its
//   random
//          number (so that loading it twice shows), and completion is a bijection that does not commute with addition.
//   order  a hash of the tree of folds: it depends on the order and grouping of operands. Equal orders, equal bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/contract.h"
#include "plan/value_machine.h"

namespace tutti {

struct Fingerprint {
  uint64_t sum = 0, order = 0;
  bool operator==(const Fingerprint&) const = default;
};

class FingerprintAlgebra {
 public:
  using Value = Fingerprint;

  FingerprintAlgebra(std::span<const Plan> plans, const Contract& contract);

  Status load(const Place& place, const Plan& plan, const Step& step, Value* values);
  Status fold(const Place& place, const Step& step, std::span<const Value* const> operands, Value* result) const;
  Status store(const Place& place, const Plan& plan, const Step& step, const Value* result);
  void send(const Place&, const Step& step, uint32_t, const Value* result, Value* message) const {
    for (uint32_t k = 0; k < step.span; ++k) message[k] = result[k];
  }

  // After the run: all outputs as the contract asks, and nothing stored in vain.
  Status check_end(std::span<const Plan> plans) const;
  // Two lanes of a rank touched the same memory, one of them by a store: their order is to be proved.
  bool lanes_share_memory() const { return lanes_share_memory_; }

 private:
  struct Cell {
    Fingerprint value;
    bool defined = false, unread = false, stored = false;
    bool shared = false;      // touched by a second lane
    uint16_t lane = kNoLane;  // the first lane that touched it
  };
  static constexpr uint16_t kNoLane = UINT16_MAX;

  Cell& touch(const Place& place, Buffer buffer, uint32_t chunk, bool store);
  const Cell& cell(Rank rank, Buffer buffer, uint32_t chunk) const {
    return cells_[first_cell_[rank] + contract_.cell(rank, buffer, chunk)];
  }
  Fingerprint own(Rank rank, uint32_t in_chunk) const;
  Status check_output(Rank rank) const;
  Status check_reduction(Rank rank, uint32_t out_chunk) const;
  Status check_copy(Rank rank, uint32_t out_chunk) const;

  const Contract& contract_;
  std::vector<size_t> first_cell_;
  std::vector<Cell> cells_;
  std::vector<uint64_t> reduced_;  // of each chunk of in: the completed sum over ranks
  bool lanes_share_memory_ = false;
};

}  // namespace tutti
