#include "perf/profile.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tutti::perf {
namespace {

using Kind = TypeTraits::Kind;

uint64_t low_bits(uint64_t value, int bits) { return bits == 64 ? value : value & ((1ULL << bits) - 1); }

int64_t sign_extended(uint64_t value, int bits) { return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits); }

std::vector<uint32_t> shuffled(uint32_t n, Rng& rng) {
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  for (uint32_t i = n; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  return order;
}

// n integers whose magnitudes add up to at most `budget`, as two's complement. Each takes about twice its share, so
// that with few ranks values are large and with many most are small or 0.
std::vector<uint64_t> distribute(uint32_t n, uint64_t budget, bool with_sign, Rng& rng) {
  std::vector<uint64_t> values(n);
  const uint64_t share = std::max<uint64_t>(1, budget / n);
  const uint64_t most = share > budget / 2 ? budget : 2 * share;
  for (const uint32_t place : shuffled(n, rng)) {
    const uint64_t magnitude = rng.below(std::min(most, budget) + (budget == UINT64_MAX ? 0 : 1));
    budget -= magnitude;
    values[place] = with_sign && rng.below(2) == 1 ? -magnitude : magnitude;
  }
  return values;
}

// ---- integers ------------------------------------------------------------------------------------------------------

void make_integer(const TypeTraits& t, Operation operation, Rng& rng, Profile& profile) {
  const auto n = static_cast<uint32_t>(profile.contributions.size());
  const bool is_signed = t.kind == Kind::signed_integer;
  if (operation == Operation::avg) {
    const uint64_t largest = low_bits(~0ULL, t.bits) >> (is_signed ? 1 : 0);
    profile.contributions = distribute(n, largest, is_signed, rng);
  } else {
    for (uint64_t& value : profile.contributions) value = rng.next();
    if (operation == Operation::prod) {
      for (uint64_t& value : profile.contributions) value |= 1;
      if (rng.below(2) == 1) --profile.contributions[rng.below(n)];
    }
    if (operation == Operation::mulsum) {
      for (uint64_t& value : profile.contributions) {
        profile.halves.push_back(low_bits(value, t.bits));
        value *= 2;
      }
    }
  }
  for (uint64_t& value : profile.contributions) value = low_bits(value, t.bits);
}

uint64_t reduce_integers(const TypeTraits& t, Operation operation, const std::vector<uint64_t>& values) {
  const bool is_signed = t.kind == Kind::signed_integer;
  const auto less = [&](uint64_t a, uint64_t b) {
    return is_signed ? sign_extended(a, t.bits) < sign_extended(b, t.bits) : a < b;
  };
  switch (operation) {
    case Operation::max:
      return *std::max_element(values.begin(), values.end(), less);
    case Operation::min:
      return *std::min_element(values.begin(), values.end(), less);
    case Operation::prod: {
      uint64_t product = 1;
      for (const uint64_t value : values) product *= value;
      return low_bits(product, t.bits);
    }
    default:
      break;
  }
  const uint64_t sum = low_bits(std::accumulate(values.begin(), values.end(), uint64_t{0}), t.bits);
  if (operation != Operation::avg) return sum;
  const uint64_t n = values.size();
  return is_signed ? low_bits(static_cast<uint64_t>(sign_extended(sum, t.bits) / static_cast<int64_t>(n)), t.bits)
                   : sum / n;
}

// ---- floats --------------------------------------------------------------------------------------------------------

std::vector<double> float_terms(const TypeTraits& t, Operation operation, uint32_t n, Rng& rng) {
  uint64_t budget = 1ULL << (t.fraction_bits + 1);
  double unit = 1;
  if (operation == Operation::mulsum) unit = 2;  // multiples of 2 are exact up to twice as far
  if (operation == Operation::avg && t.bits >= 32) {
    unit = n;
    budget /= n;
  }
  std::vector<double> values;
  for (const uint64_t value : distribute(n, budget, true, rng))
    values.push_back(static_cast<double>(static_cast<int64_t>(value)) * unit);
  return values;
}

// At most 5 doublings, 5 halvings and as many threes as the significand holds, so that every partial product is exact
// and well inside the range of the narrowest type (float8e4m3: 2^-6 .. 448, and 9 * 2^5 = 288).
std::vector<double> float_factors(const TypeTraits& t, uint32_t n, Rng& rng) {
  constexpr uint64_t kMostOfEach = 5;
  uint64_t threes = 0;
  for (uint64_t power = 3; power < (2ULL << t.fraction_bits) && threes < kMostOfEach; power *= 3) ++threes;
  std::vector<double> values(n);
  for (double& value : values) value = rng.below(2) == 1 ? -1 : 1;
  for (const auto& [factor, most] : {std::pair{2.0, kMostOfEach}, {0.5, kMostOfEach}, {3.0, threes}})
    for (uint64_t left = rng.below(most + 1); left > 0; --left) values[rng.below(n)] *= factor;
  return values;
}

double any_finite(tuttiDataType_t type, Rng& rng) {
  const TypeTraits t = traits_of(type);
  for (;;) {
    const uint64_t bits = low_bits(rng.next(), t.bits);
    if (is_finite(type, bits) && bits != 1ULL << (t.bits - 1)) return float_to_double(type, bits);
  }
}

double reduce_floats(const TypeTraits& t, Operation operation, const std::vector<double>& values) {
  switch (operation) {
    case Operation::max:
      return *std::max_element(values.begin(), values.end());
    case Operation::min:
      return *std::min_element(values.begin(), values.end());
    case Operation::prod:
      return std::accumulate(values.begin(), values.end(), 1.0, std::multiplies<>());
    default:
      break;
  }
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  if (operation != Operation::avg) return sum;
  const auto n = static_cast<double>(values.size());
  return t.bits <= 32 ? static_cast<float>(sum) / static_cast<float>(n) : sum / n;
}

void make_float(tuttiDataType_t type, Operation operation, Rng& rng, Profile& profile) {
  const TypeTraits t = traits_of(type);
  const auto n = static_cast<uint32_t>(profile.contributions.size());
  std::vector<double> values;
  if (operation == Operation::prod) {
    values = float_factors(t, n, rng);
  } else if (operation == Operation::max || operation == Operation::min) {
    for (uint32_t i = 0; i < n; ++i) values.push_back(any_finite(type, rng));
  } else {
    values = float_terms(t, operation, n, rng);
  }
  for (uint32_t i = 0; i < n; ++i) {
    profile.contributions[i] = float_from_double(type, values[i]);
    if (operation == Operation::mulsum) profile.halves.push_back(float_from_double(type, values[i] / 2));
  }
  profile.result = float_from_double(type, reduce_floats(t, operation, values));
}

}  // namespace

Profile make_profile(tuttiDataType_t type, Operation operation, uint32_t nranks, Rng& rng) {
  Profile profile;
  profile.contributions.resize(nranks);
  const TypeTraits t = traits_of(type);
  if (t.kind == Kind::floating) {
    make_float(type, operation, rng, profile);
  } else {
    make_integer(t, operation, rng, profile);
    profile.result = reduce_integers(t, operation, profile.contributions);
  }
  return profile;
}

}  // namespace tutti::perf
