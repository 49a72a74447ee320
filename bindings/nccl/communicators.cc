// Making, asking and ending communicators.
#include "communicator.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

using namespace tutti_nccl;

namespace tutti_nccl {

namespace {
thread_local std::string last_message;
thread_local int group_depth = 0;
}  // namespace

void explain(std::string message) { last_message = std::move(message); }
const std::string& explanation() { return last_message; }

ncclResult_t refuse(ncclResult_t result, std::string why) {
  explain(std::move(why));
  return result;
}

tuttiComm_t ready(ncclComm_t comm, ncclResult_t& result) {
  explain({});
  result = ncclSuccess;
  if (!comm) {
    result = refuse(ncclInvalidArgument, "the communicator is null");
    return nullptr;
  }
  // Acquire: see ncclComm::state.
  const ncclResult_t state = comm->state.load(std::memory_order_acquire);
  if (state != ncclSuccess) {
    result = state == ncclInProgress
                 ? refuse(ncclInvalidUsage, "the communicator's last call is still in progress; poll ncclCommGetAsyncError")
                 : state;
    return nullptr;
  }
  if (!comm->comm) {
    result = refuse(ncclInvalidUsage, "the communicator is not made yet: its call is in a group that has not ended, or failed");
    return nullptr;
  }
  return comm->comm;
}

ncclResult_t read_config(const ncclConfig_t* config, Settings& settings) {
  if (!config) return ncclSuccess;
  if (config->magic != kNcclConfigMagic || config->size < offsetof(ncclConfig_t, blocking)) {
    return refuse(ncclInvalidArgument, "the config was not initialised with NCCL_CONFIG_INITIALIZER");
  }
  ncclConfig_t mine{};
  mine.blocking = kNcclUndefinedInt;
  std::memcpy(&mine, config, std::min(config->size, sizeof mine));
  if (mine.blocking != kNcclUndefinedInt && mine.blocking != 0 && mine.blocking != 1) {
    return refuse(ncclInvalidArgument, "config.blocking is " + std::to_string(mine.blocking) + "; it may be 0 or 1");
  }
  settings.blocking = mine.blocking != 0;
  if (mine.commName) settings.name = mine.commName;
  return ncclSuccess;
}

ncclResult_t make_communicator(ncclComm_t* out, const ncclConfig_t* config,
                               std::function<tuttiResult_t(tuttiComm_t*, const tuttiConfig_t*)> make) {
  explain({});
  if (!out) return refuse(ncclInvalidArgument, "the place for the communicator is null");
  *out = nullptr;
  Settings settings;
  if (const ncclResult_t read = read_config(config, settings); read != ncclSuccess) return read;
  auto made = std::make_unique<ncclComm>();
  made->blocking = settings.blocking;
  ncclComm* self = made.get();
  const auto run = [self, make = std::move(make), name = std::move(settings.name)] {
    tuttiConfig_t theirs = TUTTI_CONFIG_INITIALIZER;
    if (!name.empty()) theirs.name = name.c_str();
    return static_cast<ncclResult_t>(make(&self->comm, &theirs));
  };
  // In a group the call is Tutti's to put off; its place for the result is ours and stays.
  if (settings.blocking || group_depth > 0) {
    const ncclResult_t result = run();
    if (result != ncclSuccess) return result;
    *out = made.release();
    return ncclSuccess;
  }
  // Relaxed: the thread is started afterwards.
  self->state.store(ncclInProgress, std::memory_order_relaxed);
  self->worker = std::thread([self, run] { self->state.store(run(), std::memory_order_release); });
  *out = made.release();
  return ncclInProgress;
}

namespace {

void join(ncclComm_t comm) {
  if (comm->worker.joinable()) comm->worker.join();
}

ncclResult_t end(ncclComm_t comm, tuttiResult_t (*how)(tuttiComm_t)) {
  explain({});
  if (!comm) return ncclSuccess;
  join(comm);
  const ncclResult_t result = comm->comm ? static_cast<ncclResult_t>(how(comm->comm)) : static_cast<ncclResult_t>(ncclSuccess);
  delete comm;
  return result;
}

tuttiUniqueId converted(const ncclUniqueId& id) {
  tuttiUniqueId theirs;
  static_assert(sizeof theirs == sizeof id);
  std::memcpy(&theirs, &id, sizeof theirs);
  return theirs;
}

}  // namespace
}  // namespace tutti_nccl

NCCL_API(ncclResult_t, ncclGetVersion, (int* version)) {
  if (!version) return refuse(ncclInvalidArgument, "the place for the version is null");
  *version = kNcclVersion;
  return ncclSuccess;
}

NCCL_API(const char*, ncclGetErrorString, (ncclResult_t result)) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "in progress";
    case ncclTimeout: return "timeout";
    default: return "unknown result code";
  }
}

NCCL_API(const char*, ncclGetLastError, (ncclComm_t comm)) {
  if (!explanation().empty()) return explanation().c_str();
  // Acquire: see ncclComm::state.
  const bool made = comm && comm->state.load(std::memory_order_acquire) != ncclInProgress;
  return tuttiGetLastError(made ? comm->comm : nullptr);
}

NCCL_API(void, ncclResetDebugInit, ()) {}

NCCL_API(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id)) {
  adopt_environment();
  explain({});
  if (!id) return refuse(ncclInvalidArgument, "the place for the unique id is null");
  tuttiUniqueId made;
  const tuttiResult_t result = tuttiGetUniqueId(&made);
  if (result == tuttiSuccess) std::memcpy(id, &made, sizeof made);
  return result;
}

NCCL_API(ncclResult_t, ncclCommInitRankConfig, (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t* config)) {
  adopt_environment();
  return make_communicator(comm, config, [nranks, rank, point = converted(id)](tuttiComm_t* made, const tuttiConfig_t* settings) {
    return tuttiCommInitRankConfig(made, nranks, point, rank, settings);
  });
}

NCCL_API(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank)) {
  return ncclCommInitRankConfig(comm, nranks, id, rank, nullptr);
}

NCCL_API(ncclResult_t, ncclCommInitRankScalable,
         (ncclComm_t * comm, int nranks, int rank, int ids, ncclUniqueId* id, ncclConfig_t* config)) {
  if (ids < 1 || !id) return refuse(ncclInvalidArgument, "there must be at least one unique id");
  // Several ids spread the meeting in NCCL; here the first serves all.
  return ncclCommInitRankConfig(comm, nranks, id[0], rank, config);
}

NCCL_API(ncclResult_t, ncclCommInitAll, (ncclComm_t * comms, int n, const int* devices)) {
  adopt_environment();
  explain({});
  if (!comms || n < 1) return refuse(ncclInvalidArgument, "there must be a place for at least one communicator");
  std::vector<tuttiComm_t> made(static_cast<size_t>(n));
  // Without CUDA, devices are ordinals of GPUs that are not there: all ranks use host memory.
  (void)devices;
  const tuttiResult_t result = tuttiCommInitAll(made.data(), n, nullptr);
  if (result != tuttiSuccess) return result;
  for (int i = 0; i < n; ++i) {
    comms[i] = new ncclComm;
    comms[i]->comm = made[static_cast<size_t>(i)];
  }
  return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t* config)) {
  ncclResult_t result;
  const tuttiComm_t parent = ready(comm, result);
  if (!parent) return result;
  if (color == TUTTI_SPLIT_NOCOLOR) {
    if (out) *out = nullptr;
    tuttiComm_t none = nullptr;
    return tuttiCommSplit(parent, color, key, &none, nullptr);
  }
  return make_communicator(out, config, [=](tuttiComm_t* made, const tuttiConfig_t* settings) {
    return tuttiCommSplit(parent, color, key, made, settings);
  });
}

NCCL_API(ncclResult_t, ncclCommShrink,
         (ncclComm_t comm, int* exclude, int count, ncclComm_t* out, ncclConfig_t* config, int flags)) {
  ncclResult_t result;
  const tuttiComm_t parent = ready(comm, result);
  if (!parent) return result;
  std::vector<int> ranks(exclude, exclude + std::max(0, exclude ? count : 0));
  return make_communicator(out, config, [=](tuttiComm_t* made, const tuttiConfig_t* settings) {
    return tuttiCommShrink(parent, ranks.data(), static_cast<int>(ranks.size()), made, settings, flags);
  });
}

NCCL_API(ncclResult_t, ncclCommGetUniqueId, (ncclComm_t comm, ncclUniqueId* id)) {
  ncclResult_t result;
  const tuttiComm_t parent = ready(comm, result);
  if (!parent) return result;
  if (!id) return refuse(ncclInvalidArgument, "the place for the unique id is null");
  tuttiUniqueId made;
  const tuttiResult_t done = tuttiCommGetUniqueId(parent, &made);
  if (done == tuttiSuccess) std::memcpy(id, &made, sizeof made);
  return done;
}

NCCL_API(ncclResult_t, ncclCommGrow,
         (ncclComm_t comm, int nranks, const ncclUniqueId* id, int rank, ncclComm_t* out, ncclConfig_t* config)) {
  adopt_environment();
  tuttiComm_t parent = nullptr;
  ncclResult_t result;
  if (comm && !(parent = ready(comm, result))) return result;
  std::vector<tuttiUniqueId> point;
  if (id) point.push_back(converted(*id));
  return make_communicator(out, config, [=](tuttiComm_t* made, const tuttiConfig_t* settings) {
    return tuttiCommGrow(parent, nranks, point.empty() ? nullptr : point.data(), rank, made, settings);
  });
}

NCCL_API(ncclResult_t, ncclCommFinalize, (ncclComm_t comm)) {
  ncclResult_t result;
  const tuttiComm_t mine = ready(comm, result);
  if (!mine) return result;
  if (comm->blocking) return tuttiCommFinalize(mine);
  join(comm);
  // Relaxed: the thread is started afterwards.
  comm->state.store(ncclInProgress, std::memory_order_relaxed);
  comm->worker = std::thread([comm, mine] { comm->state.store(tuttiCommFinalize(mine), std::memory_order_release); });
  return ncclInProgress;
}

NCCL_API(ncclResult_t, ncclCommDestroy, (ncclComm_t comm)) { return end(comm, tuttiCommDestroy); }
NCCL_API(ncclResult_t, ncclCommAbort, (ncclComm_t comm)) { return end(comm, tuttiCommAbort); }

NCCL_API(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* error)) {
  explain({});
  if (!comm || !error) return refuse(ncclInvalidArgument, "the communicator or the place for its error is null");
  // Acquire: see ncclComm::state.
  *error = comm->state.load(std::memory_order_acquire);
  if (*error != ncclSuccess || !comm->comm) return ncclSuccess;
  tuttiResult_t latched = tuttiSuccess;
  const tuttiResult_t result = tuttiCommGetAsyncError(comm->comm, &latched);
  *error = latched;
  return result;
}

NCCL_API(ncclResult_t, ncclCommCount, (ncclComm_t comm, int* count)) {
  ncclResult_t result;
  const tuttiComm_t mine = ready(comm, result);
  return mine ? static_cast<ncclResult_t>(tuttiCommCount(mine, count)) : result;
}

NCCL_API(ncclResult_t, ncclCommUserRank, (ncclComm_t comm, int* rank)) {
  ncclResult_t result;
  const tuttiComm_t mine = ready(comm, result);
  return mine ? static_cast<ncclResult_t>(tuttiCommUserRank(mine, rank)) : result;
}

NCCL_API(ncclResult_t, ncclCommCuDevice, (ncclComm_t comm, int* device)) {
  ncclResult_t result;
  const tuttiComm_t mine = ready(comm, result);
  return mine ? static_cast<ncclResult_t>(tuttiCommDevice(mine, device)) : result;
}

NCCL_API(ncclResult_t, ncclGroupStart, ()) {
  explain({});
  const tuttiResult_t result = tuttiGroupStart();
  if (result == tuttiSuccess) ++group_depth;
  return result;
}

NCCL_API(ncclResult_t, ncclGroupEnd, ()) {
  explain({});
  if (group_depth > 0) --group_depth;
  return tuttiGroupEnd();
}

NCCL_API(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t*)) {
  return refuse(ncclInvalidUsage, "Tutti does not simulate groups; `tutti explain` predicts times");
}

// The one name that has no twin.
extern "C" __attribute__((visibility("default"))) void ncclResetDebugInitInternal() {}
