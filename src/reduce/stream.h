// Streaming: results that are too large to be read again from a cache are stored past it.
//
// An ordinary store to a line that is not cached reads the line from memory first; a streaming (non-temporal) store does
// not, and leaves in the cache what others still need. So an output larger than the cache costs half the memory traffic.
#pragma once

#include <cstddef>
#include <span>

#include "reduce/fold.h"

namespace tutti {

// memcpy with streaming stores. Any alignment; no overlap, but `to` == `from` is allowed and does nothing. The stores are
// ordered before later stores of this thread, as other processors see them.
void stream_copy(void* to, const void* from, size_t bytes);

void fold_past_caches(const FoldSpec& spec, std::span<const void* const> operands, int own_operand, bool complete,
                      std::span<void* const> results, std::span<void* const> streamed, size_t count);

// fold() whose `streamed` results (maybe none) go past the cache and whose `results` (maybe none, if there are streamed
// ones) do not. The same bits. A streamed result may be the same memory as an operand too.
inline void fold_streaming(const FoldSpec& spec, std::span<const void* const> operands, int own_operand, bool complete,
                           std::span<void* const> results, std::span<void* const> streamed, size_t count) {
  if (streamed.empty()) fold(spec, operands, own_operand, complete, results, count);
  else
    fold_past_caches(spec, operands, own_operand, complete, results, streamed, count);
}

}  // namespace tutti
