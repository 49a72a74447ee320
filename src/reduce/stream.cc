#include "reduce/stream.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/stream.cc"
#include "reduce/disabled_targets.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The whole lines of a copy to an aligned address; returns how many bytes it did.
size_t stream_lines(uint8_t* HWY_RESTRICT to, const uint8_t* HWY_RESTRICT from, size_t bytes) {
#if HWY_TARGET == HWY_SCALAR
  (void)to, (void)from, (void)bytes;
  return 0;
#else
  constexpr size_t kLineBytes = 64;
  const hn::CappedTag<uint8_t, kLineBytes> d;
  const size_t lanes = hn::Lanes(d);
  const size_t end = bytes / kLineBytes * kLineBytes;
  for (size_t offset = 0; offset < end; offset += kLineBytes)
    for (size_t i = 0; i < kLineBytes; i += lanes) hn::Stream(hn::LoadU(d, from + offset + i), d, to + offset + i);
  hwy::FlushStream();
  return end;
#endif
}

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(stream_lines);

namespace {

constexpr size_t kLineBytes = 64;
// A part of a fold that is streamed: it is folded into the first-level cache and copied from there.
constexpr size_t kBlockBytes = 4096;

}  // namespace

void stream_copy(void* to, const void* from, size_t bytes) {
  if (to == from || bytes == 0) return;
  auto* t = static_cast<uint8_t*>(to);
  const auto* f = static_cast<const uint8_t*>(from);
  const size_t head = std::min<size_t>(bytes, -reinterpret_cast<uintptr_t>(t) % kLineBytes);
  std::memcpy(t, f, head);
  const size_t done = head + HWY_DYNAMIC_DISPATCH(stream_lines)(t + head, f + head, bytes - head);
  std::memcpy(t + done, f + done, bytes - done);
}

namespace {

// Pointers moved on by some bytes, without allocation for the usual few of them.
template <class T>
class Shifted {
 public:
  explicit Shifted(std::span<T* const> pointers) : pointers_(pointers) {
    if (pointers.size() > few_.size()) many_.resize(pointers.size());
  }
  std::span<T* const> by(size_t bytes) {
    T** const out = many_.empty() ? few_.data() : many_.data();
    using Byte = std::conditional_t<std::is_const_v<T>, const uint8_t, uint8_t>;
    for (size_t i = 0; i < pointers_.size(); ++i) out[i] = static_cast<Byte*>(pointers_[i]) + bytes;
    return {out, pointers_.size()};
  }

 private:
  std::span<T* const> pointers_;
  std::array<T*, 16> few_;
  std::vector<T*> many_;
};

}  // namespace

void fold_in_blocks(const FoldSpec& spec, std::span<const void* const> operands, int own_operand, bool complete,
                    std::span<void* const> results, std::span<void* const> streamed, size_t count) {
  const size_t element_bytes = size_of(spec.type);
  if (is_copy(spec, operands.size(), own_operand, complete) && results.empty() && streamed.size() == 1)
    return stream_copy(streamed[0], operands[0], count * element_bytes);
  alignas(kLineBytes) std::array<uint8_t, kBlockBytes> block;
  Shifted<const void> from(operands);
  Shifted<void> cached(results), past(streamed);
  const size_t step = kBlockBytes / element_bytes;
  for (size_t done = 0; done < count; done += step) {
    const size_t part = std::min(step, count - done);
    const size_t offset = done * element_bytes;
    std::span<void* const> to = cached.by(offset);
    void* const own_block = block.data();
    if (to.empty()) to = {&own_block, 1};
    fold(spec, from.by(offset), own_operand, complete, to, part);
    for (void* result : past.by(offset)) stream_copy(result, to[0], part * element_bytes);
  }
}

}  // namespace tutti
#endif  // HWY_ONCE
