#include "api/arguments.h"

namespace tutti {
namespace {

// Larger buffers cannot exist in 47-bit user address space.
constexpr uint64_t kMaxBufferBytes = uint64_t{1} << 47;

uintptr_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }

}  // namespace

Status unknown_type(tuttiDataType_t type) {
  return invalid_argument("type {} is not a tuttiDataType_t; 0 (tuttiInt8) to {} (tuttiFloat8e5m2) are",
                          static_cast<int>(type), tuttiNumTypes - 1);
}

Status check_other_op(tuttiRedOp_t op, const Communicator& comm, Request& request) {
  const int number = static_cast<int>(op);
  TUTTI_TRY_ASSIGN(const Communicator::Factor factor, comm.factor(op));
  if (factor.type != request.type)
    return invalid_argument("operation {} was made with a factor of type {} and cannot be used with {}", number,
                            name_of(factor.type), name_of(request.type));
  request.op = ReduceOp::premul_sum;
  request.scalar_bits = factor.scalar_bits;
  return {};
}

Status check_rank_argument(const char* name, int rank, const Communicator& comm) {
  if (rank < 0 || static_cast<uint32_t>(rank) >= comm.nranks())
    return invalid_argument("{} is {}; the communicator has ranks 0 to {}", name, rank, comm.nranks() - 1);
  return {};
}

Status check_large_count(const char* name, size_t count, uint64_t blocks, DataType type) {
  const uint64_t limit = kMaxBufferBytes / size_of(type) / blocks;
  if (count > limit)
    return invalid_argument("{} is {}; {} buffers of that many {} cannot exist in memory (at most {})", name, count,
                            blocks, name_of(type), limit);
  return {};
}

Status wrong_buffer(const BufferArgument& buffer, DataType type) {
  if (!buffer.data) return invalid_argument("{} is NULL but {} elements of it are needed", buffer.name, buffer.elements);
  return invalid_argument("{} is {}, which is not aligned to the {} bytes of {}", buffer.name, buffer.data,
                          size_of(type), name_of(type));
}

Status wrong_memory(const BufferArgument& buffer, const Communicator& comm) {
  const PointerKind kind = kind_of_pointer(buffer.data, comm.device());
  const PointerKind expected = comm.device() ? PointerKind{PointerKind::Where::device, comm.device()->index()} : PointerKind{};
  if (kind == expected) return {};
  return invalid_argument("{} is {}, which is {}; this communicator's rank works on {}{}", buffer.name, buffer.data,
                          describe(kind), describe(expected),
                          comm.device() ? " (tuttiMemAlloc gives it where TUTTI_DEVICE names a device)" : "");
}

Status check_overlapping(const BufferArgument& send, const BufferArgument& recv, DataType type, const InPlace* in_place) {
  const uint64_t bytes = size_of(type);
  const uintptr_t s = address(send.data), r = address(recv.data);
  if (in_place && s + in_place->send_offset * bytes == r + in_place->recv_offset * bytes) return {};
  const std::string allowed =
      !in_place ? "they must not"
                : fmt::format("they may only if {} + {} elements == {} + {} elements (in place)", send.name,
                              in_place->send_offset, recv.name, in_place->recv_offset);
  return invalid_argument("{} ({} elements at {}) and {} ({} elements at {}) overlap; {}", send.name, send.elements,
                          send.data, recv.name, recv.elements, recv.data, allowed);
}

}  // namespace tutti
