// Call: one collective as all ranks of an ensemble make it, with its data and the one right answer.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "base/types.h"
#include "tests/engine/ensemble.h"

namespace tutti {

// exact: whole numbers and powers of two, such that every order of folding gives the same bits in the given type.
// rounding: any floats; the answer is then only asked to be the same on all ranks.
enum class Data : uint8_t { exact, rounding };

struct Call {
  const Algorithm* algorithm = nullptr;
  Rank root{0};  // send: rank r sends to r + root and receives from r - root, all at once
  uint32_t lanes = 1;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  bool in_place = false;
  // Elements of the one block; of the equal blocks; or, where `variable`, of block b (all_to_all: of the block that
  // rank s has for rank d, at s * n + d).
  std::vector<uint64_t> counts = {0};
  bool variable = false;
  bool scattered = false;  // variable: blocks lie in drawn order with gaps, different on every rank
  uint64_t tile_bytes = 256;
  Data data = Data::exact;
  uint64_t data_seed = 1;
};
std::string describe(const Call& call);

// Makes the call on all ranks. The memory of each is checked the moment its execution has finished, byte by byte: the
// output, the input, and all that lies around and between them. It is overwritten right after, so that whoever reads it
// later reads nonsense. An error says which byte of which rank is wrong. `sequence` counts the calls of the ensemble.
Status perform(Ensemble& ensemble, const Call& call, uint32_t sequence);

}  // namespace tutti
