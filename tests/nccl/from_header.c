/* A program for NCCL as its users write them, compiled against NVIDIA's own nccl.h. Host buffers, null streams.
 * Ranks are threads. */
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 4
#define COUNT 1000
#define TRY(call)                                                                                       \
  do {                                                                                                  \
    ncclResult_t r_ = (call);                                                                           \
    if (r_ != ncclSuccess) {                                                                            \
      fprintf(stderr, "%s: %s: %s\n", #call, ncclGetErrorString(r_), ncclGetLastError(NULL));           \
      exit(1);                                                                                          \
    }                                                                                                   \
  } while (0)
#define EXPECT(what)                                                  \
  do {                                                                \
    if (!(what)) {                                                    \
      fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what);      \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

static ncclUniqueId id;

static void* run(void* argument) {
  const int rank = (int)(size_t)argument;
  ncclComm_t comm, half;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  float in[COUNT], out[COUNT * RANKS];
  int i, value;
  config.commName = "from the header";
  TRY(ncclCommInitRankConfig(&comm, RANKS, id, rank, &config));
  TRY(ncclCommUserRank(comm, &value));
  EXPECT(value == rank);
  for (i = 0; i < COUNT; i++) in[i] = (float)rank;
  TRY(ncclAllReduce(in, out, COUNT, ncclFloat, ncclSum, comm, NULL));
  EXPECT(out[COUNT - 1] == 6);
  TRY(ncclAllGather(in, out, COUNT, ncclFloat, comm, NULL));
  EXPECT(out[0] == 0 && out[3 * COUNT] == 3);
  TRY(ncclReduceScatter(out, in, COUNT, ncclFloat, ncclMax, comm, NULL));
  EXPECT(in[0] == rank);
  TRY(ncclBcast(in, COUNT, ncclFloat, 2, comm, NULL));
  EXPECT(in[0] == 2);
  in[0] = (float)rank;
  TRY(ncclGroupStart());
  TRY(ncclSend(in, 1, ncclFloat, (rank + 1) % RANKS, comm, NULL));
  TRY(ncclRecv(out, 1, ncclFloat, (rank + RANKS - 1) % RANKS, comm, NULL));
  TRY(ncclGroupEnd());
  EXPECT(out[0] == (rank + RANKS - 1) % RANKS);
  {
    float half_factor = 0.5f;
    ncclRedOp_t op;
    TRY(ncclRedOpCreatePreMulSum(&op, &half_factor, ncclFloat, ncclScalarHostImmediate, comm));
    in[0] = 4;
    TRY(ncclAllReduce(in, out, 1, ncclFloat, op, comm, NULL));
    EXPECT(out[0] == 8);
    TRY(ncclRedOpDestroy(op, comm));
  }
  TRY(ncclCommSplit(comm, rank % 2, rank, &half, &config));
  TRY(ncclCommCount(half, &value));
  EXPECT(value == 2);
  TRY(ncclCommDestroy(half));
  {
    ncclWindow_t window = (ncclWindow_t)1;
    EXPECT(ncclCommWindowRegister(comm, in, sizeof in, &window, NCCL_WIN_DEFAULT) == ncclInvalidUsage && !window);
    EXPECT(strstr(ncclGetLastError(comm), "ncclCommWindowRegister"));
  }
  {
    void* memory;
    void* handle;
    TRY(ncclMemAlloc(&memory, 4096));
    TRY(ncclCommRegister(comm, memory, 4096, &handle));
    TRY(ncclCommDeregister(comm, handle));
    TRY(ncclMemFree(memory));
  }
  { /* Non-blocking: the call returns at once and is polled. */
    ncclConfig_t nonblocking = NCCL_CONFIG_INITIALIZER;
    ncclComm_t later;
    ncclResult_t state;
    nonblocking.blocking = 0;
    EXPECT(ncclCommSplit(comm, 0, rank, &later, &nonblocking) == ncclInProgress);
    do TRY(ncclCommGetAsyncError(later, &state));
    while (state == ncclInProgress);
    EXPECT(state == ncclSuccess);
    in[0] = 1;
    TRY(ncclAllReduce(in, out, 1, ncclFloat, ncclSum, later, NULL));
    EXPECT(out[0] == RANKS);
    EXPECT(ncclCommFinalize(later) == ncclInProgress);
    do TRY(ncclCommGetAsyncError(later, &state));
    while (state == ncclInProgress);
    TRY(ncclCommDestroy(later));
  }
  TRY(ncclCommFinalize(comm));
  TRY(ncclCommDestroy(comm));
  return NULL;
}

int main(void) {
  pthread_t threads[RANKS];
  int rank, version;
  ncclConfig_t wrong = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm;
  TRY(ncclGetVersion(&version));
  EXPECT(version >= NCCL_VERSION_CODE);
  TRY(ncclGetUniqueId(&id));
  wrong.magic = 7;
  EXPECT(ncclCommInitRankConfig(&comm, 1, id, 0, &wrong) == ncclInvalidArgument);
  for (rank = 0; rank < RANKS; rank++) pthread_create(&threads[rank], NULL, run, (void*)(size_t)rank);
  for (rank = 0; rank < RANKS; rank++) pthread_join(threads[rank], NULL);
  printf("compiled against %d, runs on %d\n", NCCL_VERSION_CODE, version);
  return 0;
}
