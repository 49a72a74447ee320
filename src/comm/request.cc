#include "comm/request.h"

#include <cstring>
#include <numeric>

namespace tutti {
namespace {

// A message of this size costs about as much to copy as to send, so larger ones gain nothing from being sent together.
constexpr uint64_t kFuseUpToBytes = 32 * 1024;

bool fusible(const Request& r) {
  return r.collective == Collective::all_reduce && r.in_block_count * size_of(r.type) <= kFuseUpToBytes;
}
bool alike(const Request& a, const Request& b) {
  return a.type == b.type && a.op == b.op && a.scalar_bits == b.scalar_bits;
}

Request fused(std::vector<Request> parts) {
  Request whole = parts.front();
  auto fusion = std::make_shared<Fusion>();
  uint64_t count = 0;
  for (const Request& part : parts) count += part.in_block_count;
  fusion->memory.resize(count * size_of(whole.type));
  fusion->parts = std::move(parts);
  whole.in = whole.out = fusion->memory.data();
  whole.in_block_count = whole.out_block_count = count;
  whole.fusion = std::move(fusion);
  return whole;
}

}  // namespace

BlockTable Request::in_blocks() const {
  if (!tables || tables->in_counts.empty()) return {in_block_count, {}, {}};
  return {0, tables->in_counts, tables->in_offsets};
}

BlockTable Request::out_blocks() const {
  if (!tables || tables->out_counts.empty()) return {out_block_count, {}, {}};
  return {0, tables->out_counts, tables->out_offsets};
}

uint64_t Request::wide_bytes(Rank nranks) const {
  if (tables && collective == Collective::all_to_all) return 0;
  if (tables) {
    // One of them is the table that all ranks passed alike; this rank's own count would not do to choose by.
    const auto& counts = tables->in_counts.empty() ? tables->out_counts : tables->in_counts;
    return std::accumulate(counts.begin(), counts.end(), uint64_t{0}) * size_of(type);
  }
  const Grid grid = grid_of(collective, nranks, nranks);
  return std::max(in_block_count * grid.in_blocks, out_block_count * grid.out_blocks) * size_of(type);
}

void Fusion::gather() {
  std::byte* to = memory.data();
  for (const Request& part : parts) {
    const size_t bytes = part.in_block_count * size_of(part.type);
    if (bytes != 0) std::memcpy(to, part.in, bytes);
    to += bytes;
  }
}

void Fusion::scatter() const {
  const std::byte* from = memory.data();
  for (const Request& part : parts) {
    const size_t bytes = part.in_block_count * size_of(part.type);
    if (bytes != 0) std::memcpy(part.out, from, bytes);
    from += bytes;
  }
}

std::vector<Request> fuse_small_all_reduces(std::vector<Request> requests) {
  std::vector<Request> result;
  std::vector<Request> run;
  const auto flush = [&] {
    if (run.size() > 1) result.push_back(fused(std::move(run)));
    else if (run.size() == 1) result.push_back(std::move(run.front()));
    run.clear();
  };
  for (Request& request : requests) {
    const bool joins = fusible(request) && (run.empty() || alike(run.front(), request));
    if (!joins) flush();
    if (fusible(request)) run.push_back(std::move(request));
    else result.push_back(std::move(request));
  }
  flush();
  return result;
}

}  // namespace tutti
