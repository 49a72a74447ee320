// fnv1a: FNV-1a (Fowler, Noll, Vo), 64 bits: the same on all machines, and no protection from anybody.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti {

constexpr uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace tutti
