// Operands for the tests of folds: every value a type has trouble with, often enough to meet in one element.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "base/types.h"
#include "reduce/fold.h"
#include "reduce/targets.h"

namespace tutti {

constexpr DataType kAllTypes[] = {DataType::int8,    DataType::uint8,    DataType::int32,      DataType::uint32,
                                  DataType::int64,   DataType::uint64,   DataType::float16,    DataType::float32,
                                  DataType::float64, DataType::bfloat16, DataType::float8e4m3, DataType::float8e5m2};
constexpr ReduceOp kAllOps[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::max,
                                ReduceOp::min, ReduceOp::avg,  ReduceOp::premul_sum};

// Memory of exactly `bytes` at an address that is `misalignment` bytes past a multiple of 64, so that
// AddressSanitizer sees one byte too many.
class Buffer {
 public:
  Buffer(size_t bytes, size_t misalignment)
      : bytes_(bytes),
        memory_(new (std::align_val_t(64)) uint8_t[misalignment + bytes]),
        data_(memory_.get() + misalignment) {}
  uint8_t* data() const { return data_; }
  size_t size() const { return bytes_; }
  std::vector<uint8_t> bytes() const { return {data_, data_ + bytes_}; }

 private:
  struct Free {
    void operator()(uint8_t* p) const { ::operator delete[](p, std::align_val_t(64)); }
  };
  size_t bytes_;
  std::unique_ptr<uint8_t[], Free> memory_;
  uint8_t* data_;
};

// The bits of zeros, ones, extremes, subnormals, infinities and NaNs (quiet, signalling, negative, with payload) of a
// type.
std::vector<uint64_t> special_bits(DataType type);

// Fills a buffer with elements of a type: a third special ones, a third random bits, a third between -4 and 4.
void fill(DataType type, Rng& rng, const Buffer& buffer);

// While it lives, all folds use one instruction set.
class ForcedTarget {
 public:
  explicit ForcedTarget(std::string_view name) : forced_(force_fold_target(name)) {}
  ~ForcedTarget() { force_fold_target(""); }
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;
  bool forced() const { return forced_; }

 private:
  bool forced_;
};

}  // namespace tutti
