// What Tutti has not: windows, one-sided messages, the device API, parameters by name. The names must exist, because
// programs bind every name when they load; the calls are refused, and leave nothing behind.
#include "communicator.h"

using namespace tutti_nccl;

namespace {
ncclResult_t unsupported(const char* name, const char* instead) {
  return refuse(ncclInvalidUsage, std::string(name) + " is not supported by Tutti's libnccl: " + instead);
}
}  // namespace

#define REFUSED(name, instead) \
  NCCL_API(ncclResult_t, name, ()) { return unsupported(#name, instead); }

// A place for a result is cleared, so that who ignores the refusal finds nothing.
#define REFUSED_WITH_PLACE(name, parameters, place, instead)     \
  NCCL_API(ncclResult_t, name, parameters) {                     \
    if (place) *place = {};                                      \
    return unsupported(#name, instead);                          \
  }

constexpr const char* kNoWindows = "it has no symmetric windows; use ncclCommRegister and the collectives";
constexpr const char* kNoDeviceApi = "it has no device API; use the collectives";
constexpr const char* kNoParameters = "its settings are the TUTTI_ variables, as `tutti env` prints them";

REFUSED_WITH_PLACE(ncclCommWindowRegister, (ncclComm_t, void*, size_t, ncclWindow_t* window, int), window, kNoWindows)
REFUSED(ncclCommWindowDeregister, kNoWindows)
REFUSED_WITH_PLACE(ncclWinGetUserPtr, (ncclComm_t, ncclWindow_t, void** pointer), pointer, kNoWindows)
REFUSED(ncclPutSignal, "use ncclSend and ncclRecv")
REFUSED(ncclSignal, "use ncclSend and ncclRecv")
REFUSED(ncclWaitSignal, "use ncclSend and ncclRecv")
REFUSED(ncclCommRevoke, "use ncclCommAbort, or ncclCommShrink with NCCL_SHRINK_ABORT")
REFUSED(ncclCommSuspend, "a communicator holds no GPU memory to give back")
REFUSED(ncclCommResume, "a communicator cannot be suspended")
REFUSED_WITH_PLACE(ncclCommMemStats, (ncclComm_t, int, uint64_t* value), value, "a communicator holds no GPU memory")
REFUSED(ncclSetEncryption, "use a TUTTI_SECRET_FILE")

REFUSED(ncclCommQueryProperties, kNoDeviceApi)
REFUSED(ncclDevCommCreate, kNoDeviceApi)
REFUSED(ncclDevCommDestroy, kNoDeviceApi)
REFUSED_WITH_PLACE(ncclGetLsaMultimemDevicePointer, (ncclWindow_t, size_t, void** pointer), pointer, kNoDeviceApi)
REFUSED_WITH_PLACE(ncclGetMultimemDevicePointer, (ncclWindow_t, size_t, uint64_t, void** pointer), pointer, kNoDeviceApi)
REFUSED_WITH_PLACE(ncclGetLsaDevicePointer, (ncclWindow_t, size_t, int, void** pointer), pointer, kNoDeviceApi)
REFUSED_WITH_PLACE(ncclGetPeerDevicePointer, (ncclWindow_t, size_t, int, void** pointer), pointer, kNoDeviceApi)
REFUSED(ncclGetCftDeviceLeInfo, kNoDeviceApi)
REFUSED(ncclGetMultimemDeviceLeInfo, kNoDeviceApi)
REFUSED(ncclGetPeerDeviceLeInfo, kNoDeviceApi)
REFUSED(ncclLsaBarrierCreateRequirement, kNoDeviceApi)
REFUSED(ncclGinBarrierCreateRequirement, kNoDeviceApi)
REFUSED(ncclLLA2ACreateRequirement, kNoDeviceApi)
REFUSED(ncclGinOutboxCreateRequirement, kNoDeviceApi)
REFUSED(ncclGinInboxA2ACreateRequirement, kNoDeviceApi)
NCCL_API(int, ncclLLA2ACalcSlots, (int, int)) { return 0; }

// Teams of a communicator: all of it, this rank alone.
NCCL_API(ncclTeam_t, ncclTeamWorld, (ncclComm_t comm)) {
  ncclTeam_t team{0, 0, 1};
  ncclResult_t result;
  if (const tuttiComm_t mine = ready(comm, result)) {
    tuttiCommCount(mine, &team.nRanks);
    tuttiCommUserRank(mine, &team.rank);
  }
  return team;
}
NCCL_API(ncclTeam_t, ncclTeamLsa, (ncclComm_t)) { return {1, 0, 1}; }
NCCL_API(ncclTeam_t, ncclTeamRail, (ncclComm_t comm)) { return ncclTeamWorld(comm); }
NCCL_API(ncclTeam_t, ncclTeamCft, (ncclComm_t)) { return {1, 0, 1}; }
NCCL_API(ncclTeam_t, ncclTeamCftMultimem, (ncclComm_t)) { return {1, 0, 1}; }
NCCL_API(int, ncclTeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank)) {
  return ncclTeamWorld(comm).rank + (rank - team.rank) * team.stride;
}
NCCL_API(int, ncclTeamRankToLsa, (ncclComm_t, ncclTeam_t, int)) { return 0; }

REFUSED(ncclParamBind, kNoParameters)
REFUSED(ncclParamGet, kNoParameters)
REFUSED(ncclParamGetI8, kNoParameters)
REFUSED(ncclParamGetI16, kNoParameters)
REFUSED(ncclParamGetI32, kNoParameters)
REFUSED(ncclParamGetI64, kNoParameters)
REFUSED(ncclParamGetU8, kNoParameters)
REFUSED(ncclParamGetU16, kNoParameters)
REFUSED(ncclParamGetU32, kNoParameters)
REFUSED(ncclParamGetU64, kNoParameters)
REFUSED(ncclParamGetStr, kNoParameters)
REFUSED(ncclParamGetParameter, kNoParameters)
REFUSED(ncclParamGetAllParameterKeys, kNoParameters)
NCCL_API(void, ncclParamDumpAll, ()) {}
