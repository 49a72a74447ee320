#include "comm/tag.h"

#include <fmt/format.h>

namespace tutti {
namespace {

constexpr uint64_t kCountMask = (uint64_t{1} << 37) - 1;
constexpr uint64_t kRootMask = 0xffff;

}  // namespace

uint64_t tag_of(const Request& r) {
  const bool send_or_recv = r.point_to_point();
  const Collective collective = send_or_recv ? Collective::send : r.collective;
  uint64_t count = std::max(r.in_block_count, r.out_block_count);
  if (r.variable) count = kCountMask;  // differs between ranks by right
  uint64_t tag = static_cast<uint64_t>(collective) << 60 | static_cast<uint64_t>(r.type) << 56;
  if (is_reduction(collective)) tag |= static_cast<uint64_t>(r.op) << 53;
  if (has_root(collective)) tag |= (r.root & kRootMask) << 37;
  return tag | (count & kCountMask);
}

std::string describe_tag(uint64_t tag) {
  const auto collective = static_cast<Collective>(tag >> 60);
  const auto type = static_cast<DataType>(tag >> 56 & 0xf);
  const auto op = static_cast<ReduceOp>(tag >> 53 & 0x7);
  const uint64_t count = tag & kCountMask;
  if (collective == Collective::barrier) return "barrier";
  std::string text(collective == Collective::send ? "send/recv" : name_of(collective));
  text += count == kCountMask ? fmt::format(" (v) of {}", name_of(type)) : fmt::format(" of {} {}", count, name_of(type));
  if (is_reduction(collective)) text += fmt::format(", {}", name_of(op));
  if (has_root(collective)) text += fmt::format(", root {}", tag >> 37 & kRootMask);
  return text;
}

}  // namespace tutti
