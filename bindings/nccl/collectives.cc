// Collectives, messages, operations with a factor, and memory: one call of NCCL, one of Tutti.
#include "communicator.h"

using namespace tutti_nccl;

// The stream is a cudaStream_t where ranks have GPUs; ranks on the host take a null one, or a tuttiStream_t.
#define SERVE(call)                           \
  ncclResult_t result;                        \
  const tuttiComm_t c = ready(comm, result);  \
  if (!c) return result;                      \
  const auto s = static_cast<tuttiStream_t>(stream); \
  const auto t = static_cast<tuttiDataType_t>(type); \
  return static_cast<ncclResult_t>(call)

// Of 2.32: the same with a config for the call, whose fields are about CUDA kernels and change no result.
#define WITH_CONFIG(name, parameters, arguments) \
  NCCL_API(ncclResult_t, name##Config, parameters) { return name arguments; }

NCCL_API(ncclResult_t, ncclAllReduce, (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)) {
  SERVE(tuttiAllReduce(in, out, count, t, static_cast<tuttiRedOp_t>(op), c, s));
}
WITH_CONFIG(ncclAllReduce, (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const void*),
            (in, out, count, type, op, comm, stream))

NCCL_API(ncclResult_t, ncclBroadcast, (const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)) {
  SERVE(tuttiBroadcast(in, out, count, t, root, c, s));
}
WITH_CONFIG(ncclBroadcast, (const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream, const void*),
            (in, out, count, type, root, comm, stream))

NCCL_API(ncclResult_t, ncclBcast, (void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

NCCL_API(ncclResult_t, ncclReduce, (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)) {
  SERVE(tuttiReduce(in, out, count, t, static_cast<tuttiRedOp_t>(op), root, c, s));
}
WITH_CONFIG(ncclReduce, (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream, const void*),
            (in, out, count, type, op, root, comm, stream))

NCCL_API(ncclResult_t, ncclReduceScatter, (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)) {
  SERVE(tuttiReduceScatter(in, out, count, t, static_cast<tuttiRedOp_t>(op), c, s));
}
WITH_CONFIG(ncclReduceScatter, (const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const void*),
            (in, out, count, type, op, comm, stream))

NCCL_API(ncclResult_t, ncclAllGather, (const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)) {
  SERVE(tuttiAllGather(in, out, count, t, c, s));
}
WITH_CONFIG(ncclAllGather, (const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream, const void*),
            (in, out, count, type, comm, stream))

NCCL_API(ncclResult_t, ncclAlltoAll, (const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)) {
  SERVE(tuttiAllToAll(in, out, count, t, c, s));
}
WITH_CONFIG(ncclAlltoAll, (const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream, const void*),
            (in, out, count, type, comm, stream))

NCCL_API(ncclResult_t, ncclGather, (const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)) {
  SERVE(tuttiGather(in, out, count, t, root, c, s));
}
WITH_CONFIG(ncclGather, (const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream, const void*),
            (in, out, count, type, root, comm, stream))

NCCL_API(ncclResult_t, ncclScatter, (const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)) {
  SERVE(tuttiScatter(in, out, count, t, root, c, s));
}
WITH_CONFIG(ncclScatter, (const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream, const void*),
            (in, out, count, type, root, comm, stream))

NCCL_API(ncclResult_t, ncclSend, (const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)) {
  SERVE(tuttiSend(in, count, t, peer, c, s));
}
NCCL_API(ncclResult_t, ncclRecv, (void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)) {
  SERVE(tuttiRecv(out, count, t, peer, c, s));
}

NCCL_API(ncclResult_t, ncclRedOpCreatePreMulSum, (ncclRedOp_t * op, void* scalar, ncclDataType_t type, int residence, ncclComm_t comm)) {
  ncclResult_t result;
  const tuttiComm_t mine = ready(comm, result);
  if (!mine) return result;
  if (residence != 0 && residence != 1) return refuse(ncclInvalidArgument, "residence is " + std::to_string(residence) + "; it may be 0 (device) or 1 (host)");
  tuttiRedOp_t made{};
  const tuttiResult_t done = tuttiRedOpCreatePreMulSum(op ? &made : nullptr, scalar, static_cast<tuttiDataType_t>(type), mine);
  if (done == tuttiSuccess) *op = made;
  return done;
}

NCCL_API(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm)) {
  ncclResult_t result;
  const tuttiComm_t mine = ready(comm, result);
  return mine ? static_cast<ncclResult_t>(tuttiRedOpDestroy(static_cast<tuttiRedOp_t>(op), mine)) : result;
}

NCCL_API(ncclResult_t, ncclMemAlloc, (void** pointer, size_t bytes)) {
  explain({});
  return tuttiMemAlloc(pointer, bytes);
}
NCCL_API(ncclResult_t, ncclMemFree, (void* pointer)) {
  explain({});
  return tuttiMemFree(pointer);
}

NCCL_API(ncclResult_t, ncclCommRegister, (ncclComm_t comm, void* buffer, size_t bytes, void** handle)) {
  ncclResult_t result;
  const tuttiComm_t mine = ready(comm, result);
  return mine ? static_cast<ncclResult_t>(tuttiCommRegister(mine, buffer, bytes, handle)) : result;
}
NCCL_API(ncclResult_t, ncclCommDeregister, (ncclComm_t comm, void* handle)) {
  ncclResult_t result;
  const tuttiComm_t mine = ready(comm, result);
  return mine ? static_cast<ncclResult_t>(tuttiCommDeregister(mine, handle)) : result;
}
