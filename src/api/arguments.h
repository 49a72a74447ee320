// Checks of a collective's arguments. Each error says which argument, what it was and what is allowed.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "comm/communicator.h"
#include "comm/request.h"

namespace tutti {

// A caller's buffer as an argument.
struct BufferArgument {
  const char* name;     // "send", "recv"
  const void* data;
  uint64_t elements;    // how many elements of it the call may touch on this rank
  bool used = true;     // whether this rank's call touches it at all
};

Result<DataType> check_type(tuttiDataType_t type);
// Fills op and scalar of `request`.
Status check_op(tuttiRedOp_t op, const Communicator& comm, Request& request);
Status check_rank_argument(const char* name, int rank, const Communicator& comm);
// That count * ranks elements can be addressed.
Status check_count(const char* name, size_t count, uint64_t blocks, DataType type);
// Present, and aligned to the type.
Status check_buffer(const BufferArgument& buffer, DataType type);
// send and recv overlap only if recv == send at the given element offsets (allowed == nullptr: never).
struct InPlace {
  uint64_t send_offset = 0, recv_offset = 0;  // elements; in place: send + send_offset == recv + recv_offset
};
Status check_overlap(const BufferArgument& send, const BufferArgument& recv, DataType type, const InPlace* in_place);

}  // namespace tutti
