#include "tests/engine/call.h"

#include <algorithm>

#include "reduce/fold.h"
#include "tests/engine/buffers.h"

namespace tutti {
namespace {

// A rank's own factor for premul_sum. Powers of two keep sums of floats exact.
uint64_t factor_of(const Call& call, Rank rank) {
  Rng rng(call.data_seed * 64 + rank + 32);
  const bool tiny = call.type == DataType::float8e4m3 || call.type == DataType::float8e5m2;
  constexpr double kFactors[] = {1, -1, 2, -2};
  uint64_t bits = 0;
  element_from_double(call.type, kFactors[rng.below(tiny ? 2 : 4)], &bits);
  return bits;
}

// The fold of block `block` of every rank's input, from the definition.
std::vector<std::byte> folded(const Call& call, const std::vector<Buffers>& ranks, uint32_t block) {
  const uint64_t count = ranks[0].in_table().counts[block];
  const size_t bytes = count * size_of(call.type);
  const auto n = static_cast<uint32_t>(ranks.size());
  std::vector<std::vector<std::byte>> inputs;
  std::vector<const void*> operands;
  for (uint32_t r = 0; r < n; ++r) {
    inputs.emplace_back(ranks[r].in_block(block), ranks[r].in_block(block) + bytes);
    void* scaled = inputs.back().data();
    const void* plain = scaled;
    if (call.op == ReduceOp::premul_sum && count > 0)
      fold_reference({call.type, call.op, n, factor_of(call, Rank{r})}, {&plain, 1}, 0, false, {&scaled, 1}, count);
    operands.push_back(plain);
  }
  std::vector<std::byte> result(bytes);
  void* to = result.data();
  const FoldSpec spec{call.type, call.op == ReduceOp::premul_sum ? ReduceOp::sum : call.op, n, 0};
  if (count > 0) fold_reference(spec, operands, kNoOwnOperand, true, {&to, 1}, count);
  return result;
}

void expect_answers(const Call& call, std::vector<Buffers>& ranks) {
  const Rank n{static_cast<uint32_t>(ranks.size())};
  const bool reduces = is_reduction(call.algorithm->collective);
  std::vector<std::byte> answer;
  for (uint32_t r = 0; r < n; ++r) {
    if (!ranks[r].has_out()) continue;
    for (uint32_t b = 0; b < ranks[r].out_table().counts.size(); ++b) {
      const Origin origin = origin_of(call, n, Rank{r}, b);
      // all_reduce: one answer for all.
      if (reduces && (answer.empty() || origin.block != 0)) answer = folded(call, ranks, origin.block);
      ranks[r].expect(b, reduces ? answer.data() : ranks[origin.rank].in_block(origin.block));
    }
  }
}

Layout layout_of(const Call& call, const Table& table, Buffer buffer, const Grid& grid) {
  const uint32_t blocks = buffer == Buffer::in ? grid.in_blocks : grid.out_blocks;
  const bool tabled = call.variable && has_many_blocks(call.algorithm->collective, buffer);
  BlockTable where{table.counts[0], {}, {}};
  if (tabled) where = {0, table.counts, {}};
  if (tabled && call.scattered) where.offsets = table.offsets;
  return Layout(where, blocks, grid.chunks_per_block, static_cast<uint32_t>(size_of(call.type)));
}

// One call under way.
class Performance {
 public:
  Performance(Ensemble& ensemble, const Call& call, uint32_t sequence)
      : ensemble_(ensemble), call_(call), stamp_{call.data_seed ^ size_of(call.type) << 60, sequence} {
    for (uint32_t r = 0; r < ensemble.size(); ++r) ranks_.emplace_back(call, ensemble.size(), Rank{r});
    parts_left_.assign(ranks_.size(), 0);
    if (call.data == Data::exact) expect_answers(call, ranks_);
  }

  Status run() {
    for (uint32_t r = 0; r < ranks_.size(); ++r) TUTTI_TRY(start_rank(Rank{r}));
    Status wrong;
    ensemble_.drive(parts_, time_limit_, [&](Ensemble::Part& part) {
      if (--parts_left_[part.rank] > 0) return;
      Status status = finish_rank(part.rank);
      if (wrong.ok()) wrong = status.within(fmt::format("rank {}", uint32_t{part.rank}));
    });
    for (const Ensemble::Part& part : parts_) TUTTI_TRY(part.status);
    return wrong;
  }

 private:
  Status start_rank(Rank rank) {
    const uint32_t n = ensemble_.size();
    if (call_.algorithm->collective != Collective::send) return start(*call_.algorithm, rank, call_.root);
    TUTTI_TRY(start(*call_.algorithm, rank, Rank{(rank + call_.root) % n}));
    return start(*find_algorithm(call_.algorithm->name, Collective::recv), rank, Rank{(rank + n - call_.root) % n});
  }

  Status start(const Algorithm& algorithm, Rank rank, Rank root) {
    const Shape shape{algorithm.collective, ensemble_.size(), root, call_.lanes};
    TUTTI_TRY_ASSIGN(Ensemble::Player * player, ensemble_.player(algorithm, shape, rank));
    Execution& execution = *player->execution;
    Buffers& buffers = ranks_[rank];
    Binding binding;
    binding.in = buffers.in();
    binding.out = buffers.out();
    binding.in_layout = layout_of(call_, buffers.in_table(), Buffer::in, execution.grid());
    binding.out_layout = layout_of(call_, buffers.out_table(), Buffer::out, execution.grid());
    binding.fold = {call_.type, call_.op, ensemble_.size(), factor_of(call_, rank)};
    binding.tile_bytes = call_.tile_bytes;
    binding.shortcut_bytes = 1;
    binding.stamp = stamp_;
    execution.start(binding);
    parts_.push_back({rank, &execution, {}, false});
    ++parts_left_[rank];
    add_time(player->steps, std::max(binding.in_layout.longest_chunk(), binding.out_layout.longest_chunk()), execution);
    return {};
  }

  // No chain of waits is longer than all steps of all ranks one after the other. A message takes its time on the wire
  // and at most seven latencies, three of them to leave; a rank is left out of a round now and then and looks again
  // some events later, hence the factor.
  void add_time(uint64_t steps, uint64_t longest, const Execution& execution) {
    const SimOptions& network = ensemble_.options().network;
    const uint64_t longest_bytes = longest * size_of(call_.type);
    const uint64_t tiles = 1 + longest_bytes * execution.grid().chunks_per_block * execution.grid().in_blocks *
                                   execution.grid().out_blocks / std::max<uint64_t>(call_.tile_bytes, 1);
    const Nanoseconds wire = network.bytes_per_us ? longest_bytes * kMicrosecond / network.bytes_per_us : 0;
    time_limit_ += steps * tiles * 8 * (7 * network.latency_max + wire + 1);
  }

  Status finish_rank(Rank rank) {
    Buffers& buffers = ranks_[rank];
    if (call_.data == Data::rounding && buffers.has_out()) {
      // The first to finish says what all others must have.
      if (first_answer_.empty()) first_answer_ = buffers.out_block(0);
      buffers.expect(0, first_answer_.data());
    }
    Status status = buffers.check();
    buffers.overwrite();
    return status;
  }

  Ensemble& ensemble_;
  const Call& call_;
  Stamp stamp_;
  std::vector<Buffers> ranks_;
  std::vector<Ensemble::Part> parts_;
  std::vector<uint32_t> parts_left_;
  std::vector<std::byte> first_answer_;
  Nanoseconds time_limit_ = kMillisecond;
};

}  // namespace

std::string describe(const Call& c) {
  return fmt::format("{} {} of [{}]{} {} ({}{}), root {}, {} copies, tiles of {} bytes{}, data {}", c.algorithm->name,
                     name_of(c.algorithm->collective), fmt::join(c.counts, " "),
                     c.scattered  ? " scattered"
                     : c.variable ? " (v)"
                                  : "",
                     name_of(c.type), name_of(c.op), c.data == Data::exact ? "" : ", rounding", uint32_t{c.root},
                     c.lanes, c.tile_bytes, c.in_place ? ", in place" : "", c.data_seed);
}

Status perform(Ensemble& ensemble, const Call& call, uint32_t sequence) {
  return Performance(ensemble, call, sequence).run().within(describe(call));
}

}  // namespace tutti
