// Checks of a collective's arguments. Each error says which argument, what it was and what is allowed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "comm/communicator.h"
#include "comm/memory.h"
#include "comm/request.h"

namespace tutti {

// A caller's buffer as an argument.
struct BufferArgument {
  const char* name;     // "send", "recv"
  const void* data;
  uint64_t elements;    // how many elements of it the call may touch on this rank
  bool used = true;     // whether this rank's call touches it at all
};

Status unknown_type(tuttiDataType_t type);
inline Result<DataType> check_type(tuttiDataType_t type) {
  if (static_cast<int>(type) < 0 || static_cast<int>(type) >= tuttiNumTypes) [[unlikely]]
    return unknown_type(type);
  return static_cast<DataType>(type);
}
// Fills op and scalar of `request`.
Status check_other_op(tuttiRedOp_t op, const Communicator& comm, Request& request);
inline Status check_op(tuttiRedOp_t op, const Communicator& comm, Request& request) {
  if (static_cast<int>(op) < 0 || static_cast<int>(op) >= tuttiNumOps) return check_other_op(op, comm, request);
  request.op = static_cast<ReduceOp>(op);
  return {};
}
Status check_rank_argument(const char* name, int rank, const Communicator& comm);
// That count * ranks elements can be addressed: larger buffers cannot exist in 47-bit user address space.
Status check_large_count(const char* name, size_t count, uint64_t blocks, DataType type);
inline Status check_count(const char* name, size_t count, uint64_t blocks, DataType type) {
  constexpr uint64_t kSurelyFine = uint64_t{1} << 28;  // of 8 bytes, for 2^16 ranks
  if (count <= kSurelyFine && blocks <= UINT16_MAX) [[likely]]
    return {};
  return check_large_count(name, count, blocks, type);
}
// In the memory that the communicator works on: the host's, or its device's.
Status wrong_memory(const BufferArgument& buffer, const Communicator& comm);
inline Status check_memory(const BufferArgument& buffer, const Communicator& comm) {
  if (!buffer.used || buffer.elements == 0) return {};
  if (!comm.device() && !device_memory_exists()) [[likely]]
    return {};
  return wrong_memory(buffer, comm);
}
// Present, and aligned to the type.
Status wrong_buffer(const BufferArgument& buffer, DataType type);
inline Status check_buffer(const BufferArgument& buffer, DataType type) {
  if (!buffer.used || buffer.elements == 0) return {};
  if (buffer.data && (reinterpret_cast<uintptr_t>(buffer.data) & (size_of(type) - 1)) == 0) [[likely]]
    return {};
  return wrong_buffer(buffer, type);
}
// send and recv overlap only if recv == send at the given element offsets (allowed == nullptr: never).
struct InPlace {
  uint64_t send_offset = 0, recv_offset = 0;  // elements; in place: send + send_offset == recv + recv_offset
};
Status check_overlapping(const BufferArgument& send, const BufferArgument& recv, DataType type, const InPlace* in_place);
inline Status check_overlap(const BufferArgument& send, const BufferArgument& recv, DataType type,
                            const InPlace* in_place) {
  if (!send.used || !recv.used || send.elements == 0 || recv.elements == 0) return {};
  const uint64_t bytes = size_of(type);
  const auto s = reinterpret_cast<uintptr_t>(send.data), r = reinterpret_cast<uintptr_t>(recv.data);
  if (s + send.elements * bytes <= r || r + recv.elements * bytes <= s) [[likely]]
    return {};
  return check_overlapping(send, recv, type, in_place);
}

}  // namespace tutti
