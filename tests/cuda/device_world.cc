#include "tests/cuda/device_world.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

namespace tutti {
namespace {

// One rank's memory in one call.
struct Memory {
  std::vector<uint64_t> in_counts, out_counts;  // of blocks
  std::vector<std::byte> in_memory, out_memory;
  std::byte* in = nullptr;
  std::byte* out = nullptr;
  size_t out_bytes = 0;
};

std::vector<uint64_t> block_counts(const DeviceCall& call, uint32_t nranks, uint32_t self, bool in) {
  const Collective c = call.algorithm->collective;
  const Grid grid = grid_of(c, Rank{nranks}, nranks);
  const uint32_t blocks = in ? grid.in_blocks : grid.out_blocks;
  if (call.counts.empty()) return std::vector<uint64_t>(blocks, call.count);
  std::vector<uint64_t> counts;
  for (uint32_t b = 0; b < nranks; ++b)
    counts.push_back(c != Collective::all_to_all ? call.counts[b]
                     : in                        ? call.counts[self * nranks + b]
                                                 : call.counts[b * nranks + self]);
  if (blocks == 1) return {call.counts[self]};
  return counts;
}

Memory make_memory(const DeviceCall& call, uint32_t nranks, uint32_t self) {
  constexpr size_t kAlignment = 64;
  Memory m;
  m.in_counts = block_counts(call, nranks, self, true);
  m.out_counts = block_counts(call, nranks, self, false);
  const auto total = [&](const std::vector<uint64_t>& counts) {
    uint64_t sum = 0;
    for (const uint64_t count : counts) sum += count;
    return sum * size_of(call.type);
  };
  const auto place = [&](std::vector<std::byte>& memory, size_t bytes) {
    memory.assign(bytes + 2 * kAlignment + call.shift_bytes, std::byte{0x5a});
    const auto begin = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + (kAlignment - begin % kAlignment) % kAlignment + call.shift_bytes;
  };
  m.out_bytes = total(m.out_counts);
  const size_t in_bytes = total(m.in_counts);
  m.in = place(m.in_memory, in_bytes);
  m.out = call.in_place ? m.in : place(m.out_memory, m.out_bytes);
  // Any bits: NaNs, infinities and subnormals too.
  Rng rng(call.data_seed * 1000 + self);
  for (size_t i = 0; i < in_bytes; i += 8) {
    const uint64_t bits = rng.next();
    std::memcpy(m.in + i, &bits, std::min<size_t>(8, in_bytes - i));
  }
  return m;
}

uint64_t factor_of(const DeviceCall& call, uint32_t rank) { return Rng(call.data_seed + rank).next() & 0x3f3f3f3f3f3f3f3f; }

BlockTable blocks_of(const DeviceCall& call, const std::vector<uint64_t>& counts) {
  if (call.counts.empty() || counts.size() == 1) return {counts[0], {}, {}};
  return {0, counts, {}};
}

// The parts of a call: send also receives.
struct Part {
  const Algorithm* algorithm;
  Shape shape;
};
std::vector<Part> parts_of(const DeviceCall& call, uint32_t n, uint32_t rank) {
  const Collective c = call.algorithm->collective;
  if (c != Collective::send) return {{call.algorithm, {c, Rank{n}, call.root, call.lanes}}};
  return {{call.algorithm, {c, Rank{n}, Rank{(rank + call.root) % n}, call.lanes}},
          {find_algorithm(call.algorithm->name, Collective::recv),
           {Collective::recv, Rank{n}, Rank{(rank + n - call.root) % n}, call.lanes}}};
}

Outputs outputs_of(const std::vector<Memory>& ranks) {
  Outputs outputs;
  for (const Memory& m : ranks) outputs.emplace_back(m.out, m.out + m.out_bytes);
  return outputs;
}

}  // namespace

std::string describe(const DeviceCall& c) {
  return fmt::format("{} {} of {} {} ({}), root {}, {} copies, tiles of {}, protocol {}, shift {}{}, data {}",
                     c.algorithm->name, name_of(c.algorithm->collective), c.count, name_of(c.type), name_of(c.op),
                     uint32_t{c.root}, c.lanes, c.tile_bytes, c.protocol == dev::Protocol::ll ? "ll" : "simple",
                     c.shift_bytes, c.in_place ? ", in place" : "", c.data_seed);
}

DeviceWorld::DeviceWorld(const Options& options) : options_(options) {
  std::vector<std::vector<std::byte>> addresses;
  for (uint32_t r = 0; r < options.nranks; ++r) {
    SimDeviceOptions device{.index = static_cast<int>(r)};
    device.topology.gpus_per_node = static_cast<int>(options.nranks);
    device.threads_per_block = options.threads_per_block;
    device.weather = options.weather;
    device.weather.seed += 1000 * r;
    device.kernels = options.kernels;
    devices_.push_back(std::move(make_sim_device(device)).value());
    auto made = make_p2p_transport({.config = {}, .key = {}, .self = Rank{r}, .nranks = options.nranks}, *devices_[r]);
    transports_.push_back(std::move(made).value());
    addresses.push_back(transports_.back()->address());
  }
  for (uint32_t r = 0; r < options.nranks; ++r)
    (void)transports_[r]->set_peers(addresses, std::vector<std::string>(options.nranks, "a rank"));
}

DeviceWorld::~DeviceWorld() {
  players_.clear();
  // Blocks under way use memory of all ranks: all devices end before any memory does.
  transports_.clear();
}

Result<DeviceExecution*> DeviceWorld::player(const Algorithm& algorithm, const Shape& shape, Rank rank) {
  auto& player = players_[{&algorithm, shape.root, shape.lanes, rank}];
  if (!player) {
    TUTTI_TRY_ASSIGN(player, DeviceExecution::create(algorithm.plan(shape, rank), shape.collective, shape.nranks,
                                                     *devices_[rank], *transports_[rank], -1));
  }
  return player.get();
}

DeviceExecution& DeviceWorld::start(const DeviceCall& call, Rank rank, uint64_t tag, std::vector<std::byte>& in,
                                    std::vector<std::byte>& out) {
  DeviceExecution& execution = *player(*call.algorithm, parts_of(call, options_.nranks, rank)[0].shape, rank).value();
  DeviceBinding binding;
  binding.in = in.data();
  binding.out = out.data();
  binding.in_blocks = binding.out_blocks = {call.count, {}, {}};
  binding.fold = {call.type, call.op, options_.nranks, 0};
  binding.tile_bytes = call.tile_bytes;
  binding.protocol = call.protocol;
  binding.stamp = {tag, 0};
  binding.timeout = options_.timeout;
  execution.start(binding);
  return execution;
}

Result<Outputs> DeviceWorld::run(const DeviceCall& call) {
  const uint32_t n = options_.nranks;
  std::vector<Memory> ranks;
  std::vector<DeviceExecution*> running;
  ++sequence_;
  for (uint32_t r = 0; r < n; ++r) ranks.push_back(make_memory(call, n, r));
  for (uint32_t r = 0; r < n; ++r) {
    for (const Part& part : parts_of(call, n, r)) {
      TUTTI_TRY_ASSIGN(DeviceExecution * execution, player(*part.algorithm, part.shape, Rank{r}));
      DeviceBinding binding;
      binding.in = ranks[r].in;
      binding.out = ranks[r].out;
      binding.in_blocks = blocks_of(call, ranks[r].in_counts);
      binding.out_blocks = blocks_of(call, ranks[r].out_counts);
      binding.fold = {call.type, call.op, n, factor_of(call, r)};
      binding.tile_bytes = call.tile_bytes;
      binding.protocol = call.protocol;
      binding.stamp = {call.data_seed, sequence_};
      binding.timeout = options_.timeout;
      execution->start(binding);
      running.push_back(execution);
    }
  }
  for (bool all_finished = false; !all_finished; ::sched_yield()) {
    all_finished = true;
    for (DeviceExecution* execution : running) {
      const Result<Progress> progress = execution->poll();
      if (!progress.ok()) {
        // Before the memory goes that the others' kernels use.
        for (DeviceExecution* other : running) other->cancel();
        return progress.status();
      }
      all_finished &= progress.value() == Progress::finished;
    }
  }
  return outputs_of(ranks);
}

Result<Outputs> run_on_host(Ensemble& ensemble, const DeviceCall& call) {
  static uint32_t sequence = 0;
  const uint32_t n = ensemble.size();
  std::vector<Memory> ranks;
  std::vector<Ensemble::Part> running;
  ++sequence;
  for (uint32_t r = 0; r < n; ++r) ranks.push_back(make_memory(call, n, r));
  for (uint32_t r = 0; r < n; ++r) {
    for (const Part& part : parts_of(call, n, r)) {
      TUTTI_TRY_ASSIGN(Ensemble::Player * player, ensemble.player(*part.algorithm, part.shape, Rank{r}));
      Execution& execution = *player->execution;
      const auto element_bytes = static_cast<uint32_t>(size_of(call.type));
      const Grid& grid = execution.grid();
      Binding binding;
      binding.in = ranks[r].in;
      binding.out = ranks[r].out;
      binding.in_layout = Layout(blocks_of(call, ranks[r].in_counts), grid.in_blocks, grid.chunks_per_block, element_bytes);
      binding.out_layout =
          Layout(blocks_of(call, ranks[r].out_counts), grid.out_blocks, grid.chunks_per_block, element_bytes);
      binding.fold = {call.type, call.op, n, factor_of(call, r)};
      binding.tile_bytes = call.tile_bytes;
      binding.stamp = {call.data_seed, sequence};
      execution.start(binding);
      running.push_back({Rank{r}, &execution, {}, false});
    }
  }
  ensemble.drive(running, 1000 * kSecond, [](Ensemble::Part&) {});
  for (const Ensemble::Part& part : running) TUTTI_TRY(part.status);
  return outputs_of(ranks);
}

Status compare(DeviceWorld& world, Ensemble& ensemble, const DeviceCall& call) {
  const Result<Outputs> host = run_on_host(ensemble, call);
  if (!host.ok()) return host.status().within("host").within(describe(call));
  const Result<Outputs> device = world.run(call);
  if (!device.ok()) return device.status().within("devices").within(describe(call));
  for (size_t r = 0; r < host.value().size(); ++r) {
    const auto& expected = host.value()[r];
    const auto& found = device.value()[r];
    const auto [is, should] = std::ranges::mismatch(found, expected);
    if (is != found.end())
      return fail(tuttiInternalError, "{}: rank {}: byte {} of {} is {:#04x}, not {:#04x}", describe(call), r,
                  is - found.begin(), found.size(), std::to_integer<int>(*is), std::to_integer<int>(*should));
  }
  return {};
}

}  // namespace tutti
