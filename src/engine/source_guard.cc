#include "engine/execution.h"

namespace tutti {

void SourceGuard::add(SendEnd* end, uint64_t message, const std::byte* begin, size_t bytes) {
  if (readings_.size() >= 16) clear();  // keeps the list as short as what is really under way
  if (bytes != 0) readings_.push_back({end, message, begin, begin + bytes});
}

void SourceGuard::detach_readers(const std::byte* begin, size_t bytes) {
  if (bytes == 0) return;
  const std::byte* limit = begin + bytes;
  for (const Reading& r : readings_)
    if (r.begin < limit && begin < r.limit && r.end->link->retired() <= r.message) r.end->link->detach();
}

bool SourceGuard::forget_retired() {
  std::erase_if(readings_, [](const Reading& r) { return r.end->link->retired() > r.message; });
  return readings_.empty();
}

}  // namespace tutti
