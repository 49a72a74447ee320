#include "perf/pattern.h"

#include <algorithm>
#include <cstring>

#include "perf/profile.h"

namespace tutti::perf {
namespace {

constexpr uint32_t kProfiles = 64;  // for 64 ranks of floats 16 KiB, which stays in the first-level cache
constexpr uint64_t kOdd = 0x9e3779b97f4a7c15ULL;

}  // namespace

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

void fill_stream(uint64_t seed, size_t first, size_t bytes, void* out) {
  auto* to = static_cast<std::byte*>(out);
  while (bytes > 0) {
    const uint64_t word = mix(seed + (first / 8 + 1) * kOdd);
    const size_t offset = first % 8, some = std::min<size_t>(8 - offset, bytes);
    std::memcpy(to, reinterpret_cast<const std::byte*>(&word) + offset, some);
    to += some;
    first += some;
    bytes -= some;
  }
}

int mulsum_scalar(int rank) { return 1 + rank % 2; }

uint64_t mulsum_scalar_bits(tuttiDataType_t type, int rank) {
  const auto scalar = static_cast<uint64_t>(mulsum_scalar(rank));
  return traits_of(type).kind == TypeTraits::Kind::floating ? float_from_double(type, static_cast<double>(scalar))
                                                            : scalar;
}

Pattern::Pattern(tuttiDataType_t type, Operation operation, int nranks, uint64_t seed)
    : type_(type), operation_(operation), nranks_(static_cast<uint32_t>(nranks)), seed_(mix(seed + kOdd)) {
  if (operation == Operation::none) return;
  Rng rng(seed_);
  for (uint32_t i = 0; i < kProfiles; ++i) {
    const Profile profile = make_profile(type, operation, nranks_, rng);
    const std::vector<uint64_t>& odd = operation == Operation::mulsum ? profile.halves : profile.contributions;
    contributions_[0].insert(contributions_[0].end(), profile.contributions.begin(), profile.contributions.end());
    contributions_[1].insert(contributions_[1].end(), odd.begin(), odd.end());
    results_.push_back(profile.result);
  }
}

// choose(hash of the position) -> bits.
template <class T, class Choose>
void Pattern::each(size_t first, size_t count, void* out, Choose choose) const {
  auto* to = static_cast<std::byte*>(out);
  for (size_t i = 0; i < count; ++i) {
    const T element = static_cast<T>(choose(mix(seed_ + (first + i + 1) * kOdd)));
    std::memcpy(to + i * sizeof(T), &element, sizeof(T));
  }
}

void Pattern::input(int rank, size_t first, size_t count, void* out) const {
  const size_t bytes = type_bytes(type_);
  if (operation_ == Operation::none) {
    fill_stream(mix(seed_ + static_cast<uint64_t>(rank)), first * bytes, count * bytes, out);
    return;
  }
  const uint64_t* table = contributions_[rank % 2].data();
  const auto self = static_cast<uint32_t>(rank);
  const auto choose = [&, n = nranks_](uint64_t hash) {
    const auto rotation = static_cast<uint32_t>(((hash >> 32) * n) >> 32);
    const uint32_t place = self + rotation < n ? self + rotation : self + rotation - n;
    return table[(hash % kProfiles) * n + place];
  };
  switch (bytes) {
    case 1:
      return each<uint8_t>(first, count, out, choose);
    case 2:
      return each<uint16_t>(first, count, out, choose);
    case 4:
      return each<uint32_t>(first, count, out, choose);
    default:
      return each<uint64_t>(first, count, out, choose);
  }
}

void Pattern::result(size_t first, size_t count, void* out) const {
  const auto choose = [&](uint64_t hash) { return results_[hash % kProfiles]; };
  switch (type_bytes(type_)) {
    case 1:
      return each<uint8_t>(first, count, out, choose);
    case 2:
      return each<uint16_t>(first, count, out, choose);
    case 4:
      return each<uint32_t>(first, count, out, choose);
    default:
      return each<uint64_t>(first, count, out, choose);
  }
}

}  // namespace tutti::perf
