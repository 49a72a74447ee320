/* Tutti: collective communication on GPU and CPU buffers.
 *
 * The C ABI, C99. Shaped like NCCL so that nobody has to learn it twice; enumerators keep NCCL's values.
 *
 * Vocabulary. A *rank* is one participant of a *communicator*. A call is *collective* when every rank of the
 * communicator must make it, in the same order. Counts are in elements of the given type; n is the number of ranks.
 *
 * Blocking. With stream == NULL a call returns when its part is complete: the output may be read and the input
 * reused. With a stream from tuttiStreamCreate the call returns at once and runs in stream order.
 *
 * Errors. Every function returns a tuttiResult_t; tuttiGetLastError holds the sentence that goes with it. Arguments
 * are checked before anything is sent. The first error of an operation under way is latched in the communicator,
 * told to every rank and returned by all later calls on it; only tuttiCommDestroy and tuttiCommAbort are useful then.
 * A rank that needs nothing from others, as the root of a broadcast, may succeed in a call in which they disagree with
 * it: a later call, tuttiCommGetAsyncError or tuttiCommFinalize tells.
 *
 * Threads. A communicator may be used from several threads; operations take place in the order in which the calls
 * were made. tuttiCommAbort may be called while another thread is inside a call on the same communicator.
 *
 * Forks. Communicators and streams stay with the process that made them: in a forked child every use of them fails with
 * tuttiInvalidUsage. The child may make its own.
 */
#ifndef TUTTI_TUTTI_H_
#define TUTTI_TUTTI_H_

#include <stddef.h>
#include <stdint.h>

#define TUTTI_MAJOR 0
#define TUTTI_MINOR 1
#define TUTTI_PATCH 0
#define TUTTI_VERSION_CODE (TUTTI_MAJOR * 10000 + TUTTI_MINOR * 100 + TUTTI_PATCH)

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuttiComm* tuttiComm_t;
typedef struct tuttiStream* tuttiStream_t;

#define TUTTI_UNIQUE_ID_BYTES 128
/* Where the ranks of one communicator meet, and the 256-bit key that they prove to know. Treat it as a secret. */
typedef struct tuttiUniqueId {
  char internal[TUTTI_UNIQUE_ID_BYTES];
} tuttiUniqueId;

typedef enum tuttiResult_t {
  tuttiSuccess = 0,
  tuttiUnhandledDeviceError = 1, /* a CUDA call failed */
  tuttiSystemError = 2,          /* a system call failed; the message names it, errno and what to try */
  tuttiInternalError = 3,        /* a bug in Tutti */
  tuttiInvalidArgument = 4,      /* one argument is wrong by itself */
  tuttiInvalidUsage = 5,         /* the call does not fit the state, the other ranks or the environment */
  tuttiRemoteError = 6,          /* another rank died, left or failed; the message names it */
  tuttiInProgress = 7,           /* not finished yet (tuttiStreamQuery) */
  tuttiTimeout = 8,              /* no progress for the communicator's timeout; the message says who is waited for */
  tuttiNumResults = 9
} tuttiResult_t;

typedef enum tuttiDataType_t {
  tuttiInt8 = 0,
  tuttiUint8 = 1,
  tuttiInt32 = 2,
  tuttiUint32 = 3,
  tuttiInt64 = 4,
  tuttiUint64 = 5,
  tuttiFloat16 = 6,
  tuttiFloat32 = 7,
  tuttiFloat64 = 8,
  tuttiBfloat16 = 9,
  tuttiFloat8e4m3 = 10,
  tuttiFloat8e5m2 = 11,
  tuttiNumTypes = 12
} tuttiDataType_t;

/* 16- and 8-bit floats are folded in float32 and rounded once per fold. tuttiAvg divides the sum by n (integers
 * truncate towards zero). tuttiMax and tuttiMin prefer a number to a NaN and order -0 below +0. */
typedef enum tuttiRedOp_t {
  tuttiSum = 0,
  tuttiProd = 1,
  tuttiMax = 2,
  tuttiMin = 3,
  tuttiAvg = 4,
  tuttiNumOps = 5,
  tuttiMaxRedOp = 0x7fffffff /* operations from tuttiRedOpCreatePreMulSum are numbered from tuttiNumOps up */
} tuttiRedOp_t;

#define TUTTI_CONFIG_UNDEF_INT (-2147483647 - 1)

/* Initialise with TUTTI_CONFIG_INITIALIZER. Undefined fields take their value from the environment. */
typedef struct tuttiConfig_t {
  size_t size;          /* sizeof(tuttiConfig_t), set by the initializer */
  int timeout_ms;       /* no progress for this long is an error; default TUTTI_TIMEOUT */
  const char* name;     /* appears in messages about this communicator; copied; default "world" or the parent's */
} tuttiConfig_t;
#define TUTTI_CONFIG_INITIALIZER {sizeof(tuttiConfig_t), TUTTI_CONFIG_UNDEF_INT, NULL}

/* ---- version and errors ------------------------------------------------------------------------------------- */

/* Writes TUTTI_VERSION_CODE of the library that runs. Errors: tuttiInvalidArgument (null). */
TUTTI_API tuttiResult_t tuttiGetVersion(int* version);
/* A short constant name for a result, never null. */
TUTTI_API const char* tuttiGetErrorString(tuttiResult_t result);
/* The sentence for the calling thread's last failed call, or, with a communicator whose error is latched, for that
 * error. Never null; valid until the thread's next failing call. comm may be NULL. */
TUTTI_API const char* tuttiGetLastError(tuttiComm_t comm);

/* ---- communicators ------------------------------------------------------------------------------------------ */

/* Makes a meeting point in this process and writes how to reach it. Pass the bytes to every rank by any means. The
 * process that calls this must live until the communicator is destroyed. Errors: tuttiSystemError,
 * tuttiInvalidUsage (no usable interface, bad environment). */
TUTTI_API tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* id);
/* Joins as `rank` of `nranks`. Blocks until all ranks have come or the timeout has passed (the error names the
 * ranks that are missing). Inside a group it is deferred to tuttiGroupEnd, so one thread can make several ranks. */
TUTTI_API tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int nranks, tuttiUniqueId id, int rank);
TUTTI_API tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t* comm, int nranks, tuttiUniqueId id, int rank,
                                                const tuttiConfig_t* config);
/* Makes `ndev` ranks in this process, comms[i] being rank i. devlist is NULL or holds device -1 (the host) for each.
 * Each communicator must then be driven by its own thread, or all of them from one thread inside a group. */
TUTTI_API tuttiResult_t tuttiCommInitAll(tuttiComm_t* comms, int ndev, const int* devlist);
/* Rank, size and meeting point from the launcher's environment (torchrun, Slurm, Open MPI, PMI, `tutti run`).
 * config may be NULL. Errors: tuttiInvalidUsage at once when a variable is missing or contradicts another, naming it. */
TUTTI_API tuttiResult_t tuttiCommInitFromEnv(tuttiComm_t* comm, const tuttiConfig_t* config);

#define TUTTI_SPLIT_NOCOLOR (-1)
/* Collective. Ranks of equal color >= 0 form a new communicator, ordered by (key, rank). With TUTTI_SPLIT_NOCOLOR
 * *newcomm becomes NULL. config may be NULL. */
TUTTI_API tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int color, int key, tuttiComm_t* newcomm,
                                       const tuttiConfig_t* config);
#define TUTTI_SHRINK_DEFAULT 0
#define TUTTI_SHRINK_ABORT 1
/* Called by all ranks that are not in exclude_ranks[0..count): a new communicator of those, in the same order.
 * TUTTI_SHRINK_ABORT first aborts what is under way on comm, and works after a peer's death or an error. */
TUTTI_API tuttiResult_t tuttiCommShrink(tuttiComm_t comm, const int* exclude_ranks, int count, tuttiComm_t* newcomm,
                                        const tuttiConfig_t* config, int flags);
/* A meeting point for tuttiCommGrow; one rank of comm calls it and hands the id to the newcomers. */
TUTTI_API tuttiResult_t tuttiCommGetUniqueId(tuttiComm_t comm, tuttiUniqueId* id);
/* A communicator of `nranks`, of which the first are comm's ranks in their order. Ranks of comm pass comm and
 * rank -1 (one of them passes id, the others may pass NULL); newcomers pass comm NULL, the id and their rank. */
TUTTI_API tuttiResult_t tuttiCommGrow(tuttiComm_t comm, int nranks, const tuttiUniqueId* id, int rank,
                                      tuttiComm_t* newcomm, const tuttiConfig_t* config);
/* Waits for all operations issued on comm, on every stream; then compares this rank's last 32 collective calls with
 * those of the ranks that finalized or left before it, and fails with tuttiInvalidUsage, naming both, where two differ.
 * Does not need the peers to call it. Operations called on comm after it fail with tuttiInvalidUsage. Errors:
 * tuttiInvalidUsage (comm is needed by calls of the thread's open group). */
TUTTI_API tuttiResult_t tuttiCommFinalize(tuttiComm_t comm);
/* Finalizes if need be and frees. Needs no peer. */
TUTTI_API tuttiResult_t tuttiCommDestroy(tuttiComm_t comm);
/* Makes every call under way on comm return with an error in all threads, tells the other ranks, and frees comm once
 * they have returned. */
TUTTI_API tuttiResult_t tuttiCommAbort(tuttiComm_t comm);
/* The latched error, tuttiSuccess when there is none. Never blocks. */
TUTTI_API tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* error);
TUTTI_API tuttiResult_t tuttiCommCount(tuttiComm_t comm, int* count);
TUTTI_API tuttiResult_t tuttiCommUserRank(tuttiComm_t comm, int* rank);
/* -1: the rank's buffers are host memory. */
TUTTI_API tuttiResult_t tuttiCommDevice(tuttiComm_t comm, int* device);

/* How one operation would run, for tools and logs: pure, no communication. Strings are static. `transport` lists the
 * transports of comm, comma-separated. */
typedef struct tuttiChoice_t {
  size_t size; /* sizeof(tuttiChoice_t), set by the caller */
  const char* algorithm;
  const char* protocol;
  char transport[64];
  size_t tile_bytes;
  int lanes;
  int algorithm_forced; /* the environment left one algorithm */
  int transport_forced; /* TUTTI_TRANSPORT is set */
} tuttiChoice_t;
/* collective is the name without prefix in lower case: "all_reduce", "broadcast", ... */
TUTTI_API tuttiResult_t tuttiCommQueryChoice(tuttiComm_t comm, const char* collective, size_t count,
                                             tuttiDataType_t type, tuttiChoice_t* choice);

/* ---- collectives --------------------------------------------------------------------------------------------
 * Buffers may be in place where it is said; any other overlap of input and output is tuttiInvalidArgument. Buffers
 * must be aligned to their element. A count of 0 is legal and synchronises as the collective would. */

/* recv[i] = op over ranks of send[i], i < count. In place: send == recv. Bitwise equal on all ranks. */
TUTTI_API tuttiResult_t tuttiAllReduce(const void* send, void* recv, size_t count, tuttiDataType_t type,
                                       tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream);
/* Every rank's recv[0..count) = root's send. send is read at root only. In place: send == recv. */
TUTTI_API tuttiResult_t tuttiBroadcast(const void* send, void* recv, size_t count, tuttiDataType_t type, int root,
                                       tuttiComm_t comm, tuttiStream_t stream);
/* Root's recv[i] = op over ranks of send[i]. recv is written at root only. In place: send == recv. */
TUTTI_API tuttiResult_t tuttiReduce(const void* send, void* recv, size_t count, tuttiDataType_t type, tuttiRedOp_t op,
                                    int root, tuttiComm_t comm, tuttiStream_t stream);
/* Rank r's recv[i] = op over ranks of send[r * recvcount + i], i < recvcount. In place: recv == send + r * recvcount. */
TUTTI_API tuttiResult_t tuttiReduceScatter(const void* send, void* recv, size_t recvcount, tuttiDataType_t type,
                                           tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream);
/* recv[q * sendcount + i] = rank q's send[i]. In place: send == recv + rank * sendcount. */
TUTTI_API tuttiResult_t tuttiAllGather(const void* send, void* recv, size_t sendcount, tuttiDataType_t type,
                                       tuttiComm_t comm, tuttiStream_t stream);
/* recv[q * count + i] = rank q's send[rank * count + i]. Not in place. */
TUTTI_API tuttiResult_t tuttiAllToAll(const void* send, void* recv, size_t count, tuttiDataType_t type,
                                      tuttiComm_t comm, tuttiStream_t stream);
/* Root's recv[q * count + i] = rank q's send[i]. In place at root: send == recv + root * count. */
TUTTI_API tuttiResult_t tuttiGather(const void* send, void* recv, size_t count, tuttiDataType_t type, int root,
                                    tuttiComm_t comm, tuttiStream_t stream);
/* Rank q's recv[i] = root's send[q * count + i]. In place at root: recv == send + root * count. */
TUTTI_API tuttiResult_t tuttiScatter(const void* send, void* recv, size_t count, tuttiDataType_t type, int root,
                                     tuttiComm_t comm, tuttiStream_t stream);
/* Blocks (or, on a stream, delays what follows) until every rank has come. */
TUTTI_API tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream);

/* V-variants: counts and displacements are arrays of n, in elements; displacements may be NULL for back to back. */
/* recv[displs[q] .. + counts[q]) = rank q's send. All ranks pass equal counts; this rank sends counts[rank]. In place:
 * send == recv + displs[rank]. */
TUTTI_API tuttiResult_t tuttiAllGatherV(const void* send, void* recv, const size_t* counts, const size_t* displs,
                                        tuttiDataType_t type, tuttiComm_t comm, tuttiStream_t stream);
/* This rank's recv[0 .. counts[rank]) = op over ranks of send[displs[rank] ..). All ranks pass equal counts. In place:
 * recv == send + displs[rank]. */
TUTTI_API tuttiResult_t tuttiReduceScatterV(const void* send, void* recv, const size_t* counts, const size_t* displs,
                                            tuttiDataType_t type, tuttiRedOp_t op, tuttiComm_t comm,
                                            tuttiStream_t stream);
/* recv[recvdispls[q] ..) = rank q's send[senddispls[rank] ..). sendcounts[q] here must equal recvcounts[rank] at q. */
TUTTI_API tuttiResult_t tuttiAllToAllV(const void* send, const size_t* sendcounts, const size_t* senddispls, void* recv,
                                       const size_t* recvcounts, const size_t* recvdispls, tuttiDataType_t type,
                                       tuttiComm_t comm, tuttiStream_t stream);

/* Point to point; messages between two ranks match in order. Inside a group any pattern completes, also with oneself. */
TUTTI_API tuttiResult_t tuttiSend(const void* send, size_t count, tuttiDataType_t type, int peer, tuttiComm_t comm,
                                  tuttiStream_t stream);
TUTTI_API tuttiResult_t tuttiRecv(void* recv, size_t count, tuttiDataType_t type, int peer, tuttiComm_t comm,
                                  tuttiStream_t stream);

/* Calls between the two are collected by the thread and run together at the outermost tuttiGroupEnd: sends and
 * receives at once, small AllReduces of one type and operation as one, several communicators of one thread side by
 * side. Groups nest. tuttiGroupEnd returns the first error. */
TUTTI_API tuttiResult_t tuttiGroupStart(void);
TUTTI_API tuttiResult_t tuttiGroupEnd(void);

/* ---- operations with a factor -------------------------------------------------------------------------------- */

/* op = sum over ranks of scalar * input, with this rank's scalar, of the given type, read now. */
TUTTI_API tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t* op, const void* scalar, tuttiDataType_t type,
                                                  tuttiComm_t comm);
TUTTI_API tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm);

/* ---- memory -------------------------------------------------------------------------------------------------- */

/* Page-aligned memory, zero at first, that the ranks of one host read and write where it lies: collectives between
 * buffers in it move each byte once instead of through slots, from 8 KiB a message up. Any part of it may be a buffer.
 * Costs a file descriptor, the memory of peers that use it counts as shared, and a forked child shares it with its
 * parent. Without a descriptor to be had it is ordinary memory, and works as such.
 * While an operation is under way peers may write to its recv buffer at any time, and after one that failed too, until
 * they have ended it: free or reuse such a buffer when the communicator is destroyed on all ranks.
 * Free with tuttiMemFree, when no operation uses it. */
TUTTI_API tuttiResult_t tuttiMemAlloc(void** pointer, size_t bytes);
TUTTI_API tuttiResult_t tuttiMemFree(void* pointer);
/* Where TUTTI_DEVICE is sim, tuttiMemAlloc gives memory of a simulated GPU, which only collectives and this function may
 * touch: an access by the host ends in SIGSEGV. It belongs to the device of the first communicator that uses it. Copies
 * between any two places; returns when it is done. Not for memory that an operation under way uses. */
TUTTI_API tuttiResult_t tuttiMemCopy(void* to, const void* from, size_t bytes);
/* Tells the transports that [buffer, buffer + bytes) will be used often. Never changes results. shm needs no telling
 * where the memory is tuttiMemAlloc's and can do nothing where it is not; self and tcp gain nothing. */
TUTTI_API tuttiResult_t tuttiCommRegister(tuttiComm_t comm, void* buffer, size_t bytes, void** handle);
TUTTI_API tuttiResult_t tuttiCommDeregister(tuttiComm_t comm, void* handle);

/* ---- host streams -------------------------------------------------------------------------------------------- */

/* An in-order queue of operations, run by one worker thread. */
TUTTI_API tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream);
/* Waits for all that was issued, then frees. */
TUTTI_API tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream);
/* Blocks until all that was issued is done; returns the first error among it since the last call. */
TUTTI_API tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream);
/* tuttiSuccess when all is done, tuttiInProgress otherwise. Never blocks. */
TUTTI_API tuttiResult_t tuttiStreamQuery(tuttiStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_TUTTI_H_ */
