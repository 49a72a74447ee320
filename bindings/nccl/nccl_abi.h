// The binary interface of libnccl.so.2, as far as Tutti serves it: values and layouts, versions 2.28 to 2.32.
//
// Written from the published interface; NVIDIA's nccl.h is not needed to build this library, and is what its callers use.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

typedef int ncclResult_t;
enum : ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclTimeout = 8,  // since 2.29
};
typedef int ncclDataType_t;  // tuttiDataType_t has the same values
typedef int ncclRedOp_t;     // tuttiRedOp_t has the same values
typedef void* cudaStream_t;
typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow* ncclWindow_t;

struct ncclUniqueId {
  char internal[128];
};

// Callers of every version pass a prefix of this; `size` says how much.
struct ncclConfig_t {
  size_t size;
  unsigned magic, version;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char* netName;
  int splitShare, trafficClass;
  const char* commName;
};

struct ncclSimInfo_t {
  size_t size;
  unsigned magic, version;
  float estimatedTime;
};

struct ncclTeam_t {
  int nRanks, rank, stride;
};

}  // extern "C"

constexpr unsigned kNcclConfigMagic = 0xcafebeef;
constexpr int kNcclUndefinedInt = -2147483647 - 1;
// What ncclGetVersion says: the newest interface whose every name is here.
constexpr int kNcclVersion = 23203;

// Defines NAME and its twin pNAME, which profilers call when they stand before NAME.
#define NCCL_API(result, name, parameters)                                                                 \
  extern "C" __attribute__((visibility("default"))) result name parameters;                                \
  extern "C" __attribute__((visibility("default"), alias(#name))) result p##name parameters;               \
  extern "C" result name parameters
