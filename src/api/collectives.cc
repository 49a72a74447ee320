// The collectives of the C API: each checks its arguments, says what it is as a Request, and submits it.

#include "api/arguments.h"
#include "api/handle.h"
#include "comm/group.h"

namespace tutti {
namespace {

// What a collective looks like to the checks, for this rank.
struct Call {
  Collective collective;
  const void* send;
  void* recv;
  size_t count;                 // elements of one block
  const char* count_name = "count";
  int root = 0;
  bool uses_send = true, uses_recv = true;
  const InPlace* in_place = nullptr;
};

Status run(const Call& call, tuttiDataType_t type, const tuttiRedOp_t* op, tuttiComm_t handle, tuttiStream_t stream) {
  TUTTI_TRY(check_comm(handle));
  TUTTI_TRY(check_stream(stream));
  Communicator& comm = *handle->impl;
  Request request;
  request.collective = call.collective;
  TUTTI_TRY_ASSIGN(request.type, check_type(type));
  if (op) TUTTI_TRY(check_op(*op, comm, request));
  if (has_root(call.collective)) TUTTI_TRY(check_rank_argument("root", call.root, comm));
  const Grid grid = grid_of(call.collective, comm.nranks(), comm.nranks());
  TUTTI_TRY(check_count(call.count_name, call.count, std::max(grid.in_blocks, grid.out_blocks), request.type));
  const BufferArgument send{"send", call.send, call.count * grid.in_blocks, call.uses_send};
  const BufferArgument recv{"recv", call.recv, call.count * grid.out_blocks, call.uses_recv};
  TUTTI_TRY(check_buffer(send, request.type));
  TUTTI_TRY(check_buffer(recv, request.type));
  TUTTI_TRY(check_overlap(send, recv, request.type, call.in_place));
  TUTTI_TRY(check_memory(send, comm));
  TUTTI_TRY(check_memory(recv, comm));
  request.in = static_cast<const std::byte*>(call.send);
  request.out = static_cast<std::byte*>(call.recv);
  request.in_block_count = request.out_block_count = call.count;
  request.root = Rank{static_cast<uint32_t>(call.root)};
  return submit(comm, std::move(request), stream_of(stream));
}

// This rank's number, 0 for a handle that run() will refuse.
uint64_t rank_of(tuttiComm_t comm) { return check_comm(comm).ok() ? uint64_t{comm->impl->rank()} : 0; }
bool is_root(tuttiComm_t comm, int root) { return rank_of(comm) == static_cast<uint64_t>(root); }

constexpr InPlace kSamePlace{};

Status point_to_point(Collective collective, const void* send, void* recv, size_t count, tuttiDataType_t type, int peer,
                      tuttiComm_t handle, tuttiStream_t stream) {
  TUTTI_TRY(check_comm(handle));
  TUTTI_TRY(check_stream(stream));
  TUTTI_TRY(check_rank_argument("peer", peer, *handle->impl));
  Request request;
  request.collective = collective;
  TUTTI_TRY_ASSIGN(request.type, check_type(type));
  TUTTI_TRY(check_count("count", count, 1, request.type));
  const BufferArgument buffer = collective == Collective::send ? BufferArgument{"send", send, count}
                                                               : BufferArgument{"recv", recv, count};
  TUTTI_TRY(check_buffer(buffer, request.type));
  TUTTI_TRY(check_memory(buffer, *handle->impl));
  request.in = static_cast<const std::byte*>(send);
  request.out = static_cast<std::byte*>(recv);
  request.in_block_count = request.out_block_count = count;
  request.root = Rank{static_cast<uint32_t>(peer)};
  return submit(*handle->impl, std::move(request), stream_of(stream));
}

}  // namespace
}  // namespace tutti

using namespace tutti;

tuttiResult_t tuttiAllReduce(const void* send, void* recv, size_t count, tuttiDataType_t type, tuttiRedOp_t op,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return operation_call([&] {
    return run({.collective = Collective::all_reduce, .send = send, .recv = recv, .count = count, .in_place = &kSamePlace},
               type, &op, comm, stream);
  });
}

tuttiResult_t tuttiBroadcast(const void* send, void* recv, size_t count, tuttiDataType_t type, int root,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return operation_call([&] {
    return run({.collective = Collective::broadcast, .send = send, .recv = recv, .count = count, .root = root,
                .uses_send = is_root(comm, root), .in_place = &kSamePlace},
               type, nullptr, comm, stream);
  });
}

tuttiResult_t tuttiReduce(const void* send, void* recv, size_t count, tuttiDataType_t type, tuttiRedOp_t op, int root,
                          tuttiComm_t comm, tuttiStream_t stream) {
  return operation_call([&] {
    return run({.collective = Collective::reduce, .send = send, .recv = recv, .count = count, .root = root,
                .uses_recv = is_root(comm, root), .in_place = &kSamePlace},
               type, &op, comm, stream);
  });
}

tuttiResult_t tuttiReduceScatter(const void* send, void* recv, size_t recvcount, tuttiDataType_t type, tuttiRedOp_t op,
                                 tuttiComm_t comm, tuttiStream_t stream) {
  return operation_call([&] {
    const InPlace own_block{.send_offset = rank_of(comm) * recvcount};
    return run({.collective = Collective::reduce_scatter, .send = send, .recv = recv, .count = recvcount,
                .count_name = "recvcount", .in_place = &own_block},
               type, &op, comm, stream);
  });
}

tuttiResult_t tuttiAllGather(const void* send, void* recv, size_t sendcount, tuttiDataType_t type, tuttiComm_t comm,
                             tuttiStream_t stream) {
  return operation_call([&] {
    const InPlace own_block{.recv_offset = rank_of(comm) * sendcount};
    return run({.collective = Collective::all_gather, .send = send, .recv = recv, .count = sendcount,
                .count_name = "sendcount", .in_place = &own_block},
               type, nullptr, comm, stream);
  });
}

tuttiResult_t tuttiAllToAll(const void* send, void* recv, size_t count, tuttiDataType_t type, tuttiComm_t comm,
                            tuttiStream_t stream) {
  return operation_call([&] {
    return run({.collective = Collective::all_to_all, .send = send, .recv = recv, .count = count}, type, nullptr, comm,
               stream);
  });
}

tuttiResult_t tuttiGather(const void* send, void* recv, size_t count, tuttiDataType_t type, int root, tuttiComm_t comm,
                          tuttiStream_t stream) {
  return operation_call([&] {
    const InPlace own_block{.recv_offset = rank_of(comm) * count};
    return run({.collective = Collective::gather, .send = send, .recv = recv, .count = count, .root = root,
                .uses_recv = is_root(comm, root), .in_place = &own_block},
               type, nullptr, comm, stream);
  });
}

tuttiResult_t tuttiScatter(const void* send, void* recv, size_t count, tuttiDataType_t type, int root, tuttiComm_t comm,
                           tuttiStream_t stream) {
  return operation_call([&] {
    const InPlace own_block{.send_offset = rank_of(comm) * count};
    return run({.collective = Collective::scatter, .send = send, .recv = recv, .count = count, .root = root,
                .uses_send = is_root(comm, root), .in_place = &own_block},
               type, nullptr, comm, stream);
  });
}

tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream) {
  return operation_call([&] {
    return run({.collective = Collective::barrier, .send = nullptr, .recv = nullptr, .count = 0}, tuttiUint8, nullptr,
               comm, stream);
  });
}

tuttiResult_t tuttiSend(const void* send, size_t count, tuttiDataType_t type, int peer, tuttiComm_t comm,
                        tuttiStream_t stream) {
  return operation_call([&] { return point_to_point(Collective::send, send, nullptr, count, type, peer, comm, stream); });
}

tuttiResult_t tuttiRecv(void* recv, size_t count, tuttiDataType_t type, int peer, tuttiComm_t comm,
                        tuttiStream_t stream) {
  return operation_call([&] { return point_to_point(Collective::recv, nullptr, recv, count, type, peer, comm, stream); });
}
