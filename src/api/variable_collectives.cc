// The V-variants: blocks of different lengths, given by tables.

#include "api/arguments.h"
#include "api/handle.h"
#include "comm/group.h"

namespace tutti {
namespace {

struct Table {
  const char* counts_name;
  const size_t* counts;
  const size_t* offsets;  // null: back to back
};

// Copies the caller's table; the highest element that it reaches is left in `extent`.
Status copy_table(const Table& table, uint32_t nranks, DataType type, std::vector<uint64_t>& counts,
                  std::vector<uint64_t>& offsets, uint64_t& extent) {
  if (!table.counts) return invalid_argument("{} is NULL; it must hold {} counts", table.counts_name, nranks);
  extent = 0;
  uint64_t next = 0;
  for (uint32_t r = 0; r < nranks; ++r) {
    TUTTI_TRY(check_count(table.counts_name, table.counts[r], 1, type));
    counts.push_back(table.counts[r]);
    offsets.push_back(table.offsets ? table.offsets[r] : next);
    TUTTI_TRY(check_count("a displacement", offsets.back(), 1, type));
    next += table.counts[r];
    if (counts.back() > 0) extent = std::max(extent, offsets.back() + counts.back());
  }
  return check_count(table.counts_name, extent, 1, type);
}

// Blocks that receive may not overlap each other.
Status check_disjoint(const char* name, const std::vector<uint64_t>& counts, const std::vector<uint64_t>& offsets) {
  std::vector<uint32_t> order;
  for (uint32_t r = 0; r < counts.size(); ++r)
    if (counts[r] > 0) order.push_back(r);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return offsets[a] < offsets[b]; });
  for (size_t i = 1; i < order.size(); ++i)
    if (offsets[order[i - 1]] + counts[order[i - 1]] > offsets[order[i]])
      return invalid_argument("the blocks of ranks {} and {} overlap in {}", order[i - 1], order[i], name);
  return {};
}

Result<Request> begin(Collective collective, tuttiDataType_t type, tuttiComm_t comm, tuttiStream_t stream) {
  TUTTI_TRY(check_comm(comm));
  TUTTI_TRY(check_stream(stream));
  Request request;
  request.collective = collective;
  request.variable = true;
  TUTTI_TRY_ASSIGN(request.type, check_type(type));
  return request;
}

Status finish(Request request, const void* send, uint64_t send_extent, void* recv, uint64_t recv_extent,
              const InPlace* in_place, tuttiComm_t comm, tuttiStream_t stream) {
  const BufferArgument send_argument{"send", send, send_extent};
  const BufferArgument recv_argument{"recv", recv, recv_extent};
  TUTTI_TRY(check_buffer(send_argument, request.type));
  TUTTI_TRY(check_buffer(recv_argument, request.type));
  TUTTI_TRY(check_overlap(send_argument, recv_argument, request.type, in_place));
  TUTTI_TRY(check_memory(send_argument, *comm->impl));
  TUTTI_TRY(check_memory(recv_argument, *comm->impl));
  request.in = static_cast<const std::byte*>(send);
  request.out = static_cast<std::byte*>(recv);
  return submit(*comm->impl, std::move(request), stream_of(stream));
}

}  // namespace
}  // namespace tutti

using namespace tutti;

tuttiResult_t tuttiAllGatherV(const void* send, void* recv, const size_t* counts, const size_t* displs,
                              tuttiDataType_t type, tuttiComm_t comm, tuttiStream_t stream) {
  return operation_call([&]() -> Status {
    TUTTI_TRY_ASSIGN(Request request, begin(Collective::all_gather, type, comm, stream));
    auto tables = std::make_shared<Request::Tables>();
    uint64_t extent = 0;
    TUTTI_TRY(copy_table({"counts", counts, displs}, comm->impl->nranks(), request.type, tables->out_counts,
                         tables->out_offsets, extent));
    TUTTI_TRY(check_disjoint("recv", tables->out_counts, tables->out_offsets));
    const uint32_t self = comm->impl->rank();
    request.in_block_count = tables->out_counts[self];
    const InPlace own_block{.recv_offset = tables->out_offsets[self]};
    request.tables = tables;
    return finish(std::move(request), send, tables->out_counts[self], recv, extent, &own_block, comm, stream);
  });
}

tuttiResult_t tuttiReduceScatterV(const void* send, void* recv, const size_t* counts, const size_t* displs,
                                  tuttiDataType_t type, tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream) {
  return operation_call([&]() -> Status {
    TUTTI_TRY_ASSIGN(Request request, begin(Collective::reduce_scatter, type, comm, stream));
    TUTTI_TRY(check_op(op, *comm->impl, request));
    auto tables = std::make_shared<Request::Tables>();
    uint64_t extent = 0;
    TUTTI_TRY(copy_table({"counts", counts, displs}, comm->impl->nranks(), request.type, tables->in_counts,
                         tables->in_offsets, extent));
    const uint32_t self = comm->impl->rank();
    request.out_block_count = tables->in_counts[self];
    const InPlace own_block{.send_offset = tables->in_offsets[self]};
    request.tables = tables;
    return finish(std::move(request), send, extent, recv, tables->in_counts[self], &own_block, comm, stream);
  });
}

tuttiResult_t tuttiAllToAllV(const void* send, const size_t* sendcounts, const size_t* senddispls, void* recv,
                             const size_t* recvcounts, const size_t* recvdispls, tuttiDataType_t type, tuttiComm_t comm,
                             tuttiStream_t stream) {
  return operation_call([&]() -> Status {
    TUTTI_TRY_ASSIGN(Request request, begin(Collective::all_to_all, type, comm, stream));
    auto tables = std::make_shared<Request::Tables>();
    uint64_t send_extent = 0, recv_extent = 0;
    const uint32_t n = comm->impl->nranks(), self = comm->impl->rank();
    TUTTI_TRY(copy_table({"sendcounts", sendcounts, senddispls}, n, request.type, tables->in_counts,
                         tables->in_offsets, send_extent));
    TUTTI_TRY(copy_table({"recvcounts", recvcounts, recvdispls}, n, request.type, tables->out_counts,
                         tables->out_offsets, recv_extent));
    TUTTI_TRY(check_disjoint("recv", tables->out_counts, tables->out_offsets));
    if (tables->in_counts[self] != tables->out_counts[self])
      return invalid_argument("sendcounts[{}] is {} but recvcounts[{}] is {}; a rank sends to itself what it receives",
                              self, tables->in_counts[self], self, tables->out_counts[self]);
    request.tables = tables;
    return finish(std::move(request), send, send_extent, recv, recv_extent, nullptr, comm, stream);
  });
}
