// New communicators from old ones: split, shrink, grow.
#pragma once

#include "comm/communicator.h"

namespace tutti {

// What the new communicator's caller may set; the rest comes from the parent.
struct ChildOptions {
  std::optional<Nanoseconds> timeout;
  std::string name;  // empty: the parent's with a suffix
};

// Null for TUTTI_SPLIT_NOCOLOR.
Result<std::unique_ptr<Communicator>> split(Communicator& parent, int color, int key, const ChildOptions& options);
// excluded: sorted, distinct, without this rank. Works on a failed parent.
Result<std::unique_ptr<Communicator>> shrink(Communicator& parent, const std::vector<uint32_t>& excluded,
                                             const ChildOptions& options);
// id: null on all ranks of the parent but (at least) one.
Result<std::unique_ptr<Communicator>> grow(Communicator& parent, Rank nranks, const tuttiUniqueId* id,
                                           const ChildOptions& options);

}  // namespace tutti
