#include "plan/fingerprint.h"

namespace tutti {
namespace {

constexpr uint64_t kOwnFactor = 0xd6e8feb86659fd93ULL;  // odd, arbitrary

// A bijection of 64 bits that looks random (the finaliser of SplitMix64).
uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// What the caller's input holds.
Fingerprint input(Rank rank, uint32_t in_chunk) {
  const uint64_t raw = mix(mix(static_cast<uint64_t>(rank) + 0x9e3779b97f4a7c15ULL) + in_chunk);
  return {raw, raw};
}

Fingerprint contribution(const Fingerprint& raw) { return {raw.sum * kOwnFactor, mix(raw.order + 1)}; }
uint64_t completed(uint64_t sum) { return mix(sum + 0x5851f42d4c957f2dULL); }

}  // namespace

FingerprintAlgebra::FingerprintAlgebra(std::span<const Plan> plans, const Contract& contract) : contract_(contract) {
  size_t cells = 0;
  for (const Plan& plan : plans) {
    first_cell_.push_back(cells);
    cells += contract.cell_count(plan.scratch_chunks);
  }
  cells_.resize(cells);
  if (contract.reduces()) reduced_.assign(contract.in_chunks(), 0);
  for (uint32_t r = 0; r < plans.size(); ++r) {
    if (!contract.has_in(Rank{r})) continue;
    for (uint32_t c = 0; c < contract.in_chunks(); ++c) {
      Cell& cell = cells_[first_cell_[r] + contract.cell(Rank{r}, Buffer::in, c)];
      cell.value = input(Rank{r}, c);
      cell.defined = true;
      if (contract.reduces()) reduced_[c] += contribution(cell.value).sum;
    }
  }
  for (uint64_t& sum : reduced_) sum = completed(sum);
}

FingerprintAlgebra::Cell& FingerprintAlgebra::touch(const Place& place, Buffer buffer, uint32_t chunk, bool store) {
  Cell& c = cells_[first_cell_[place.rank] + contract_.cell(place.rank, buffer, chunk)];
  if (c.lane == kNoLane) c.lane = place.lane;
  c.shared |= c.lane != place.lane;
  c.stored |= store;
  lanes_share_memory_ |= c.shared && c.stored;
  return c;
}

Status FingerprintAlgebra::load(const Place& place, const Plan& plan, const Step& step, Value* values) {
  // Loading from `in` is what makes a contribution in a reduction: there premul-sum scales.
  const bool contributes = contract_.reduces() && step.load_from == Buffer::in;
  for (uint32_t k = 0; k < step.span; ++k) {
    const uint32_t chunk = chunk_of_span(plan, step.load_from, step.load, k);
    Cell& c = touch(place, step.load_from, chunk, /*store=*/false);
    if (!c.defined)
      return fail(tuttiInvalidUsage, "{}: it loads chunk {}, which nobody has written", describe(place), chunk);
    c.unread = false;
    values[k] = contributes ? contribution(c.value) : c.value;
  }
  return {};
}

Status FingerprintAlgebra::fold(const Place&, const Step& step, std::span<const Value* const> operands,
                                Value* result) const {
  for (uint32_t k = 0; k < step.span; ++k) {
    Fingerprint r = operands[0][k];
    for (size_t i = 1; i < operands.size(); ++i) {
      r.sum += operands[i][k].sum;
      r.order = mix(r.order * 3 + operands[i][k].order);
    }
    if (operands.size() > 1) r.order = mix(r.order + operands.size());  // folding k at once is not folding in pairs
    if (step.complete) r = {completed(r.sum), mix(r.order + 7)};
    result[k] = r;
  }
  return {};
}

Status FingerprintAlgebra::store(const Place& place, const Plan& plan, const Step& step, const Value* result) {
  for (uint32_t k = 0; k < step.span; ++k) {
    const uint32_t chunk = chunk_of_span(plan, step.store_to, step.store, k);
    Cell& c = touch(place, step.store_to, chunk, /*store=*/true);
    if (c.unread)
      return fail(tuttiInvalidUsage, "{}: it overwrites chunk {}, whose last store nobody has read", describe(place),
                  chunk);
    c.value = result[k];
    c.defined = c.unread = true;
  }
  return {};
}

Status FingerprintAlgebra::check_end(std::span<const Plan> plans) const {
  for (uint32_t r = 0; r < plans.size(); ++r) {
    if (contract_.has_out(Rank{r})) TUTTI_TRY(check_output(Rank{r}));
    for (uint32_t c = 0; c < plans[r].scratch_chunks; ++c)
      if (cell(Rank{r}, Buffer::scratch, c).unread)
        return fail(tuttiInvalidUsage, "rank {}: what was stored last in chunk {} of scratch is never read", r, c);
  }
  return {};
}

Status FingerprintAlgebra::check_output(Rank rank) const {
  for (uint32_t c = 0; c < contract_.out_chunks(); ++c) {
    const Cell& out = cell(rank, Buffer::out, c);
    if (!out.defined)
      return fail(tuttiInvalidUsage, "rank {}: chunk {} of out is never written", static_cast<uint32_t>(rank), c);
    TUTTI_TRY(contract_.reduces() ? check_reduction(rank, c) : check_copy(rank, c));
  }
  return {};
}

Status FingerprintAlgebra::check_reduction(Rank rank, uint32_t out_chunk) const {
  const bool scattered = contract_.shape().collective == Collective::reduce_scatter;
  const uint32_t in_chunk = scattered ? rank * contract_.chunks_per_block() + out_chunk : out_chunk;
  const Fingerprint& value = cell(rank, Buffer::out, out_chunk).value;
  if (value.sum != reduced_[in_chunk])
    return fail(tuttiInvalidUsage, "rank {}: chunk {} of out is not the completed reduction over all ranks",
                static_cast<uint32_t>(rank), out_chunk);
  if (contract_.shape().collective == Collective::all_reduce &&
      value.order != cell(Rank{0}, Buffer::out, out_chunk).value.order)
    return fail(tuttiInvalidUsage,
                "ranks 0 and {} fold chunk {} in different orders, so floating-point results would differ",
                static_cast<uint32_t>(rank), out_chunk);
  return {};
}

Status FingerprintAlgebra::check_copy(Rank rank, uint32_t out_chunk) const {
  const uint32_t per_block = contract_.chunks_per_block();
  const uint32_t block = out_chunk / per_block, place = out_chunk % per_block;
  Rank source = contract_.shape().root;
  uint32_t chunk = out_chunk;  // broadcast
  switch (contract_.shape().collective) {
    case Collective::all_gather:
    case Collective::gather:
      source = Rank{block}, chunk = place;
      break;
    case Collective::scatter:
      chunk = rank * per_block + place;
      break;
    case Collective::all_to_all:
      source = Rank{block}, chunk = rank * per_block + place;
      break;
    default:
      break;
  }
  if (cell(rank, Buffer::out, out_chunk).value == input(source, chunk)) return {};
  return fail(tuttiInvalidUsage, "rank {}: chunk {} of out is not chunk {} of rank {}'s in",
              static_cast<uint32_t>(rank), out_chunk, chunk, static_cast<uint32_t>(source));
}

}  // namespace tutti
