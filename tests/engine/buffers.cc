#include "tests/engine/buffers.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "reduce/fold.h"

namespace tutti {
namespace {

constexpr size_t kGuardBytes = 64;

bool is_integer(DataType type) {
  return type == DataType::int8 || type == DataType::uint8 || type == DataType::int32 || type == DataType::uint32 ||
         type == DataType::int64 || type == DataType::uint64;
}

// The same on every rank, so that they name it without talking.
uint64_t count_of(const Call& call, uint64_t block) { return call.variable ? call.counts[block] : call.counts[0]; }

std::vector<uint64_t> block_counts(const Call& call, Rank nranks, Rank self, Buffer buffer) {
  const Collective collective = call.algorithm->collective;
  const bool many = has_many_blocks(collective, buffer), in = buffer == Buffer::in;
  if (!many && !has_many_blocks(collective, in ? Buffer::out : Buffer::in)) return {call.counts[0]};
  if (!many) return {count_of(call, self)};
  std::vector<uint64_t> counts;
  for (uint32_t b = 0; b < nranks; ++b) {
    const bool pairs = collective == Collective::all_to_all;
    counts.push_back(count_of(call, !pairs ? b : in ? self * nranks + b : b * nranks + self));
  }
  return counts;
}

Table make_table(Rng& rng, std::vector<uint64_t> counts, bool scattered) {
  Table table{std::move(counts), {}};
  std::vector<uint32_t> order(table.counts.size());
  std::iota(order.begin(), order.end(), 0);
  if (scattered)
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  table.offsets.resize(order.size());
  uint64_t next = 0;
  for (const uint32_t b : order) {
    if (scattered) next += rng.below(6);
    table.offsets[b] = next;
    next += table.counts[b];
  }
  return table;
}

// One element of an exact reduction: at most 8 ranks' values, in any order and grouping, fold without rounding in 3
// bits of mantissa (float8e5m2), and those of the wider types in theirs.
double exact_value(Rng& rng, DataType type, ReduceOp op) {
  const double sign = rng.below(2) == 0 ? 1 : -1;
  const bool tiny = type == DataType::float8e4m3 || type == DataType::float8e5m2;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum:
      return sign * static_cast<double>(rng.below(tiny ? 2 : 17));
    case ReduceOp::prod:
      return sign * (rng.below(3) == 0 ? 2 : rng.below(2) == 0 ? 0.5 : 1);
    case ReduceOp::max:
    case ReduceOp::min:
      return sign * static_cast<double>(rng.below(9));
  }
  return 0;
}

double rounding_value(Rng& rng) { return static_cast<double>(rng.below(1 << 20)) / (1 << 19) - 1; }

void draw_bytes(Rng& rng, std::vector<std::byte>& memory) {
  for (size_t i = 0; i < memory.size(); i += 8) {
    const uint64_t bits = rng.next();
    std::memcpy(memory.data() + i, &bits, std::min<size_t>(8, memory.size() - i));
  }
}

}  // namespace

uint64_t Table::extent() const {
  uint64_t end = 0;
  for (size_t b = 0; b < counts.size(); ++b)
    if (counts[b] > 0) end = std::max(end, offsets[b] + counts[b]);
  return end;
}

bool has_many_blocks(Collective collective, Buffer buffer) {
  switch (collective) {
    case Collective::all_to_all:
      return true;
    case Collective::all_gather:
    case Collective::gather:
      return buffer == Buffer::out;
    case Collective::reduce_scatter:
    case Collective::scatter:
      return buffer == Buffer::in;
    default:
      return false;
  }
}

Origin origin_of(const Call& call, Rank nranks, Rank self, uint32_t block) {
  switch (call.algorithm->collective) {
    case Collective::reduce_scatter:
      return {self, self};
    case Collective::broadcast:
      return {call.root, 0};
    case Collective::scatter:
      return {call.root, self};
    case Collective::gather:
    case Collective::all_gather:
      return {Rank{block}, 0};
    case Collective::all_to_all:
      return {Rank{block}, self};
    case Collective::send:
      return {Rank{(self + nranks - call.root) % nranks}, 0};
    default:
      return {self, 0};
  }
}

Buffers::Buffers(const Call& call, Rank nranks, Rank self) : element_bytes_(size_of(call.type)) {
  const Collective collective = call.algorithm->collective;
  const bool is_root = self == call.root, barrier = collective == Collective::barrier;
  has_in_ = !barrier && (is_root || (collective != Collective::broadcast && collective != Collective::scatter));
  has_out_ = !barrier && (is_root || (collective != Collective::reduce && collective != Collective::gather));
  in_place_ = call.in_place && has_in_ && has_out_;
  Rng rng(call.data_seed * 64 + self);
  in_table_ = make_table(rng, block_counts(call, nranks, self, Buffer::in),
                         call.scattered && has_many_blocks(collective, Buffer::in));
  out_table_ = make_table(rng, block_counts(call, nranks, self, Buffer::out),
                          call.scattered && has_many_blocks(collective, Buffer::out));
  null_in_ = !has_in_ || (!in_place_ && in_table_.extent() == 0 && rng.below(2) == 0);
  null_out_ = !has_out_ || (!in_place_ && out_table_.extent() == 0 && rng.below(2) == 0);
  place(rng, collective, self);
  fill(rng, call);
  for (int m : {0, 1}) expected_[m] = memory_[m];
}

void Buffers::place(Rng& rng, Collective collective, Rank self) {
  const auto start = [&] { return kGuardBytes + element_bytes_ * rng.below(16); };
  in_start_ = start();
  out_start_ = start();
  const bool narrow_in = !has_many_blocks(collective, Buffer::in),
             narrow_out = !has_many_blocks(collective, Buffer::out);
  uint64_t ends[2] = {in_start_ + in_table_.extent() * element_bytes_,
                      out_start_ + out_table_.extent() * element_bytes_};
  if (in_place_) {
    if (narrow_in && !narrow_out)
      in_start_ = out_start_ + bytes(out_table_, self);
    else if (narrow_out && !narrow_in)
      out_start_ = in_start_ + bytes(in_table_, self);
    else
      out_start_ = in_start_, ends[1] = 0;
    ends[0] = std::max(ends[0], ends[1]);
  }
  memory_[0].resize(ends[0] + kGuardBytes);
  if (!in_place_) memory_[1].resize(ends[1] + kGuardBytes);
}

void Buffers::fill(Rng& rng, const Call& call) {
  draw_bytes(rng, memory_[0]);
  draw_bytes(rng, memory_[1]);
  if (!is_reduction(call.algorithm->collective) || !has_in_) return;
  if (is_integer(call.type)) return;  // exact whatever the bits are: sums and products wrap
  for (uint32_t b = 0; b < in_table_.counts.size(); ++b)
    for (uint64_t i = 0; i < in_table_.counts[b]; ++i) {
      const double value = call.data == Data::exact ? exact_value(rng, call.type, call.op) : rounding_value(rng);
      element_from_double(call.type, value, memory_[0].data() + in_start_ + bytes(in_table_, b) + i * element_bytes_);
    }
}

void Buffers::expect(uint32_t block, const std::byte* data) {
  const size_t size = out_table_.counts[block] * element_bytes_;
  if (size > 0) std::memcpy(expected_[out_memory()].data() + out_start_ + bytes(out_table_, block), data, size);
}

std::vector<std::byte> Buffers::out_block(uint32_t block) {
  const std::byte* begin = memory_[out_memory()].data() + out_start_ + bytes(out_table_, block);
  return {begin, begin + out_table_.counts[block] * element_bytes_};
}

Status Buffers::check() const {
  for (size_t m : {0, 1}) {
    const auto [is, should] = std::ranges::mismatch(memory_[m], expected_[m]);
    if (is == memory_[m].end()) continue;
    const bool of_out = m == out_memory();
    const auto place = is - memory_[m].begin() - static_cast<ptrdiff_t>(of_out ? out_start_ : in_start_);
    return fail(tuttiInternalError, "byte {} of {} (extent {} elements of {} bytes) is {:#04x}, not {:#04x}", place,
                in_place_ ? "in and out"
                : of_out  ? "out"
                          : "in",
                (of_out ? out_table_ : in_table_).extent(), element_bytes_, std::to_integer<int>(*is),
                std::to_integer<int>(*should));
  }
  return {};
}

void Buffers::overwrite() {
  for (auto& memory : memory_) std::ranges::fill(memory, std::byte{0xdb});
}

}  // namespace tutti
