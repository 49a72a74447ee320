#include "cuda/device_execution.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

namespace tutti {
namespace {

// Counts and offsets of in and out: one of each a block.
constexpr size_t kTablesOfBlocks = 4;

}  // namespace

DeviceExecution::DeviceExecution(Plan plan, Collective collective, Rank nranks, Device& device, int event_descriptor)
    : plan_(std::move(plan)),
      collective_(collective),
      grid_(grid_of(collective, nranks, plan_.chunks)),
      nranks_(nranks),
      device_(device),
      event_descriptor_(event_descriptor),
      program_(device),
      scratch_(device),
      shared_(device) {}

DeviceExecution::~DeviceExecution() { cancel(); }

Result<std::unique_ptr<DeviceExecution>> DeviceExecution::create(Plan plan, Collective collective, Rank nranks,
                                                                 Device& device, FifoSource& fifos,
                                                                 int event_descriptor) {
  std::unique_ptr<DeviceExecution> execution(
      new DeviceExecution(std::move(plan), collective, nranks, device, event_descriptor));
  TUTTI_TRY(execution->lay_out(fifos));
  return execution;
}

Result<std::vector<dev::DevicePeer>> DeviceExecution::peers_of(const Lane& lane, FifoSource& fifos) const {
  std::vector<dev::DevicePeer> peers(lane.peers.size());
  for (Cursor cursor; !at_end(lane, cursor); advance(lane, cursor)) {
    const Step step = decode(plan_, lane, cursor);
    for (uint32_t i = 0; i < step.recv_count; ++i) {
      const PeerSlot slot = slot_after(lane, step.recv_first, i);
      if (!peers[slot].recv.slots) {
        TUTTI_TRY_ASSIGN(peers[slot].recv, fifos.recv_fifo(lane.peers[slot]));
      }
    }
    for (uint32_t j = 0; j < step.send_count; ++j) {
      const PeerSlot slot = slot_after(lane, step.send_first, j);
      if (!peers[slot].send.slots) {
        TUTTI_TRY_ASSIGN(peers[slot].send, fifos.send_fifo(lane.peers[slot]));
      }
    }
  }
  return peers;
}

// Lanes, then all moves, then all peers, each in one array.
Status DeviceExecution::lay_out(FifoSource& fifos) {
  const size_t lanes = plan_.lanes.size();
  const uint32_t most = std::min(dev::kMostLanes, device_.most_blocks());
  if (lanes > most)
    return invalid_usage("the plan has {} lanes, of which device {} can run {} at once; set TUTTI_LANES=1", lanes,
                         device_.index(), most);
  std::vector<Move> moves;
  std::vector<dev::DevicePeer> peers;
  std::vector<dev::DeviceLane> table(lanes);
  for (size_t l = 0; l < lanes; ++l) {
    const Lane& lane = plan_.lanes[l];
    if (lane.peers.size() > dev::kMostPeers)
      return invalid_usage("a lane with {} peers; a kernel's have at most {}: choose another algorithm (TUTTI_ALGO)",
                           lane.peers.size(), dev::kMostPeers);
    for (const Move& move : lane.moves) longest_span_ = std::max<uint32_t>(longest_span_, move.span);
    TUTTI_TRY_ASSIGN(const std::vector<dev::DevicePeer> own, peers_of(lane, fifos));
    table[l].move_count = static_cast<uint32_t>(lane.moves.size());
    table[l].peer_count = static_cast<uint32_t>(own.size());
    moves.insert(moves.end(), lane.moves.begin(), lane.moves.end());
    peers.insert(peers.end(), own.begin(), own.end());
  }
  const auto aligned = [](size_t bytes) { return (bytes + 127) / 128 * 128; };
  const size_t moves_at = aligned(lanes * sizeof(dev::DeviceLane));
  const size_t peers_at = moves_at + aligned(moves.size() * sizeof(Move));
  program_.bytes = peers_at + aligned(peers.size() * sizeof(dev::DevicePeer));
  TUTTI_TRY_ASSIGN(program_.data, device_.allocate(program_.bytes));
  std::byte* const base = device_.kernel_address(program_.data);
  const Move* next_move = reinterpret_cast<const Move*>(base + moves_at);
  const auto* next_peer = reinterpret_cast<const dev::DevicePeer*>(base + peers_at);
  for (dev::DeviceLane& lane : table) {
    lane.moves = next_move;
    lane.peers = next_peer;
    next_move += lane.move_count;
    next_peer += lane.peer_count;
  }
  TUTTI_TRY(device_.copy(program_.data, table.data(), lanes * sizeof(dev::DeviceLane)));
  TUTTI_TRY(device_.copy(program_.data + moves_at, moves.data(), moves.size() * sizeof(Move)));
  TUTTI_TRY(device_.copy(program_.data + peers_at, peers.data(), peers.size() * sizeof(dev::DevicePeer)));

  shared_.bytes = sizeof(dev::Control) + kTablesOfBlocks * nranks_ * sizeof(uint64_t);
  TUTTI_TRY_ASSIGN(shared_.data, device_.allocate_pinned(shared_.bytes));
  control_ = reinterpret_cast<dev::Control*>(shared_.data);
  launch_.lanes = reinterpret_cast<const dev::DeviceLane*>(base);
  launch_.control = control_;
  launch_.chunks = plan_.chunks;
  launch_.scratch_chunks = plan_.scratch_chunks;
  launch_.wide_is_out = grid_.out_blocks > grid_.in_blocks;
  launch_.reduces = is_reduction(collective_);
  launch_.nranks = nranks_;
  return {};
}

dev::DeviceLayout DeviceExecution::layout_of(const BlockTable& blocks, uint32_t block_number, uint64_t* table) const {
  dev::DeviceLayout layout;
  layout.chunks_per_block = grid_.chunks_per_block;
  layout.block_count = blocks.block_count;
  layout.stride = chunk_stride(blocks.block_count, grid_.chunks_per_block, launch_.element_bytes);
  if (blocks.counts.empty()) return layout;
  uint64_t offset = 0;
  for (uint32_t b = 0; b < block_number; ++b) {
    table[b] = blocks.counts[b];
    table[nranks_ + b] = blocks.offsets.empty() ? offset : blocks.offsets[b];
    offset += blocks.counts[b];
  }
  layout.counts = table;
  layout.offsets = table + nranks_;
  return layout;
}

Status DeviceExecution::grow_scratch(uint64_t bytes) {
  if (scratch_.bytes >= bytes) return {};
  device_.free(scratch_.data);
  scratch_.data = nullptr;
  scratch_.bytes = 0;
  TUTTI_TRY_ASSIGN(scratch_.data, device_.allocate(bytes));
  scratch_.bytes = bytes;
  return {};
}

Status DeviceExecution::bind(const DeviceBinding& binding) {
  const auto element_bytes = static_cast<uint32_t>(size_of(binding.fold.type));
  launch_.element_bytes = element_bytes;
  auto* const tables = reinterpret_cast<uint64_t*>(shared_.data + sizeof(dev::Control));
  launch_.in_layout = layout_of(binding.in_blocks, grid_.in_blocks, tables);
  launch_.out_layout = layout_of(binding.out_blocks, grid_.out_blocks, tables + 2 * size_t{nranks_});
  // As Execution::start cuts: both ends of a message must agree, and the other one may be a host rank.
  launch_.tile_count = std::max<uint64_t>(binding.tile_bytes / longest_span_ / element_bytes, 1);
  const auto longest_of = [&](const BlockTable& blocks) {
    uint64_t longest = blocks.block_count;
    for (const uint64_t count : blocks.counts) longest = std::max(longest, count);
    return std::min(longest, chunk_stride(longest, grid_.chunks_per_block, element_bytes));
  };
  const uint64_t longest = std::max(longest_of(binding.in_blocks), longest_of(binding.out_blocks));
  launch_.tile_count = std::min(launch_.tile_count, std::max<uint64_t>(longest, 1));
  launch_.tiles = std::max<uint64_t>((longest + launch_.tile_count - 1) / launch_.tile_count, 1);
  if (binding.protocol == dev::Protocol::ll) {
    const uint64_t words = longest_span_ * ((launch_.tile_count * element_bytes + 7) / 8);
    if (words * 8 > dev::kLinePayloadBytes)
      return fail(tuttiInternalError, "a message of {} bytes does not fit a slot of protocol ll", words * 8);
  }
  TUTTI_TRY(grow_scratch(plan_.scratch_chunks * launch_.tile_count * element_bytes));
  launch_.scratch = device_.kernel_address(scratch_.data);
  launch_.in = device_.kernel_address(binding.in);
  launch_.out = device_.kernel_address(binding.out);
  launch_.scales = launch_.reduces && binding.fold.op == ReduceOp::premul_sum;
  launch_.divides = launch_.reduces && binding.fold.op == ReduceOp::avg;
  launch_.scalar_bits = binding.fold.scalar_bits;
  launch_.tag = binding.stamp.tag;
  launch_.sequence = binding.stamp.sequence;
  launch_.timeout_ns = static_cast<uint64_t>(binding.timeout);
  launch_.protocol = binding.protocol;
  return {};
}

void DeviceExecution::start(const DeviceBinding& binding) {
  stamp_ = binding.stamp;
  mismatch_.reset();
  status_ = bind(binding);
  if (!status_.ok()) return;
  std::memset(control_, 0, sizeof(dev::Control));
  steps_seen_ = 0;
  const ReduceOp op = launch_.reduces ? binding.fold.op : ReduceOp::sum;
  auto launched = device_.launch({binding.fold.type, op}, static_cast<uint32_t>(plan_.lanes.size()), launch_,
                                 event_descriptor_);
  if (launched.ok()) running_ = std::move(launched).value();
  else status_ = launched.status();
}

uint64_t DeviceExecution::steps_done() const {
  uint64_t steps = 0;
  // Relaxed: a number that grows; no data goes with it.
  for (size_t l = 0; l < plan_.lanes.size(); ++l) steps += __atomic_load_n(&control_->lanes[l].steps, __ATOMIC_RELAXED);
  return steps;
}

Status DeviceExecution::read_fault() {
  const dev::Fault& fault = control_->fault;
  // Acquire: pairs with the kernel's release of the code, which it stores last.
  const auto code = static_cast<dev::FaultCode>(__atomic_load_n(&fault.code, __ATOMIC_ACQUIRE));
  if (code == dev::FaultCode::none) return {};
  const Rank peer = plan_.lanes[fault.lane].peers[fault.peer_slot].rank;
  if (code == dev::FaultCode::timeout)
    return fail(tuttiTimeout, "the kernel's lane {} waited in vain for rank {}", fault.lane, static_cast<uint32_t>(peer));
  mismatch_ = Execution::Mismatch{
      peer, Stamp{fault.theirs.tag, fault.theirs.sequence}, fault.theirs.bytes, fault.expected_bytes};
  return invalid_usage("rank {} sent a message of another operation", static_cast<uint32_t>(peer));
}

Result<Progress> DeviceExecution::poll() {
  if (!status_.ok()) return status_;
  if (!running_) return Progress::finished;
  Result<bool> finished = running_->finished();
  if (!finished.ok()) status_ = finished.status();
  else if (*finished) {
    running_.reset();
    status_ = read_fault();
  }
  if (!status_.ok()) return status_;
  if (!running_) return Progress::finished;
  const uint64_t steps = steps_done();
  if (steps == steps_seen_) return Progress::blocked;
  steps_seen_ = steps;
  return Progress::moved;
}

void DeviceExecution::cancel() {
  if (!running_) return;
  // Release is not needed: lanes only end.
  __atomic_store_n(&control_->abort, uint64_t{1}, __ATOMIC_RELAXED);
  for (;;) {
    const Result<bool> finished = running_->finished();
    if (!finished.ok() || finished.value()) break;
    ::sched_yield();
  }
  running_.reset();
}

std::vector<Execution::Wait> DeviceExecution::waits() const {
  std::vector<Execution::Wait> waits;
  if (!running_) return waits;
  for (size_t l = 0; l < plan_.lanes.size(); ++l) {
    const dev::LaneReport& report = control_->lanes[l];
    const uint64_t waiting = __atomic_load_n(&report.waiting, __ATOMIC_RELAXED);
    // What it last waited for long may be over.
    if (waiting >> 32 <= __atomic_load_n(&report.steps, __ATOMIC_RELAXED)) continue;
    const auto slot = static_cast<size_t>(waiting & (dev::kWaitsToSend - 1));
    const Execution::Wait wait{plan_.lanes[l].peers[slot].rank, (waiting & dev::kWaitsToSend) == 0};
    if (std::find(waits.begin(), waits.end(), wait) == waits.end()) waits.push_back(wait);
  }
  return waits;
}

}  // namespace tutti
