// Communicators of the C API: making, reshaping, ending and asking.

#include <algorithm>
#include <cstring>

#include "api/arguments.h"
#include "api/handle.h"
#include "bootstrap/launcher.h"
#include "comm/group.h"
#include "comm/hub_registry.h"
#include "comm/reshape.h"

namespace tutti {
namespace {

Status check_config(const tuttiConfig_t* config) {
  if (!config) return {};
  // The first release knows one size; a later one copies the smaller of the two.
  if (config->size < sizeof(tuttiConfig_t))
    return invalid_argument("config->size is {}; initialise the struct with TUTTI_CONFIG_INITIALIZER", config->size);
  if (config->timeout_ms != TUTTI_CONFIG_UNDEF_INT && config->timeout_ms <= 0)
    return invalid_argument("config->timeout_ms is {}; it must be positive", config->timeout_ms);
  return {};
}

ChildOptions child_options(const tuttiConfig_t* config) {
  ChildOptions options;
  if (!config) return options;
  if (config->timeout_ms != TUTTI_CONFIG_UNDEF_INT)
    options.timeout = static_cast<Nanoseconds>(config->timeout_ms) * kMillisecond;
  if (config->name) options.name = config->name;
  return options;
}

Result<CommunicatorOptions> root_options(const tuttiConfig_t* config) {
  TUTTI_TRY(check_config(config));
  CommunicatorOptions options;
  TUTTI_TRY_ASSIGN(options.config, config_from_environment());
  const ChildOptions wanted = child_options(config);
  if (wanted.timeout) options.config.timeout = *wanted.timeout;
  if (!wanted.name.empty()) options.name = wanted.name;
  return options;
}

Status hand_out(Result<std::unique_ptr<Communicator>> made, tuttiComm_t* comm) {
  if (!made.ok()) return made.status();
  *comm = nullptr;
  if (*made) *comm = new tuttiComm{tuttiComm::kMark, std::move(made).value()};
  return {};
}

Status init_rank(tuttiComm_t* comm, int nranks, const tuttiUniqueId& id, int rank, const tuttiConfig_t* config) {
  if (!comm) return invalid_argument("comm is NULL; it receives the communicator");
  *comm = nullptr;
  if (nranks < 1) return invalid_argument("nranks is {}; it must be at least 1", nranks);
  if (rank < 0 || rank >= nranks)
    return invalid_argument("rank is {}; with nranks {} it can be 0 to {}", rank, nranks, nranks - 1);
  TUTTI_TRY_ASSIGN(CommunicatorOptions options, root_options(config));
  TUTTI_TRY_ASSIGN(options.point, decode_unique_id(id));
  options.rank = Rank{static_cast<uint32_t>(rank)};
  options.nranks = Rank{static_cast<uint32_t>(nranks)};
  return submit_meeting([comm, options = std::move(options)]() mutable {
    options.hub = take_hub(options.point);
    return hand_out(Communicator::create(std::move(options)), comm);
  });
}

Status init_all(tuttiComm_t* comms, int ndev, const int* devlist) {
  if (!comms) return invalid_argument("comms is NULL; it receives {} communicators", ndev);
  if (ndev < 1) return invalid_argument("ndev is {}; it must be at least 1", ndev);
  for (int i = 0; devlist && i < ndev; ++i)
    if (devlist[i] != -1)
      return invalid_usage("devlist[{}] is device {}; this build has no CUDA devices, only the host (-1)", i,
                           devlist[i]);
  TUTTI_TRY_ASSIGN(const Config config, config_from_environment());
  TUTTI_TRY_ASSIGN(const MeetingPoint point, open_hub(config));
  const tuttiUniqueId id = encode(point);
  std::fill_n(comms, ndev, nullptr);
  group_start();
  Status status;
  for (int i = 0; i < ndev && status.ok(); ++i) status = init_rank(&comms[i], ndev, id, i, nullptr);
  const Status ended = group_end();
  if (status.ok()) status = ended;
  for (int i = 0; i < ndev && !status.ok(); ++i) {
    delete comms[i];
    comms[i] = nullptr;
  }
  return status;
}

Status init_from_environment(tuttiComm_t* comm, const tuttiConfig_t* config) {
  if (!comm) return invalid_argument("comm is NULL; it receives the communicator");
  *comm = nullptr;
  TUTTI_TRY_ASSIGN(CommunicatorOptions options, root_options(config));
  TUTTI_TRY_ASSIGN(const Launch launch, launch_from_environment(options.config));
  options.point = launch.point;
  options.rank = launch.rank;
  options.nranks = launch.nranks;
  if (launch.rank == 0) {
    TUTTI_TRY_ASSIGN(options.hub, Hub::create(options.config, &launch.point));
  }
  return hand_out(Communicator::create(std::move(options)), comm);
}

Result<std::vector<uint32_t>> check_excluded(const int* ranks, int count, const Communicator& comm) {
  if (count < 0 || (count > 0 && !ranks))
    return invalid_argument("exclude_ranks is NULL or count ({}) negative", count);
  std::vector<uint32_t> excluded;
  for (int i = 0; i < count; ++i) {
    TUTTI_TRY(check_rank_argument(fmt::format("exclude_ranks[{}]", i).c_str(), ranks[i], comm));
    if (static_cast<uint32_t>(ranks[i]) == comm.rank())
      return invalid_usage("rank {} is excluded and must not call tuttiCommShrink", ranks[i]);
    excluded.push_back(static_cast<uint32_t>(ranks[i]));
  }
  std::sort(excluded.begin(), excluded.end());
  excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
  return excluded;
}

Status check_not_in_open_group(tuttiComm_t comm) {
  if (!open_group_needs(*comm->impl)) return {};
  return invalid_usage(
      "the communicator is needed by calls in this thread's open group; end the group with tuttiGroupEnd "
      "first, or use tuttiCommAbort");
}

void free_handle(tuttiComm_t comm) {
  comm->impl->wait_until_idle();
  retire(comm);
}

}  // namespace
}  // namespace tutti

using namespace tutti;

tuttiResult_t tuttiGetUniqueId(tuttiUniqueId* id) {
  return api_call([&]() -> Status {
    if (!id) return invalid_argument("id is NULL");
    TUTTI_TRY_ASSIGN(const Config config, config_from_environment());
    TUTTI_TRY_ASSIGN(const MeetingPoint point, open_hub(config));
    *id = encode(point);
    return {};
  });
}

tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int nranks, tuttiUniqueId id, int rank) {
  return operation_call([&] { return init_rank(comm, nranks, id, rank, nullptr); });
}

tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t* comm, int nranks, tuttiUniqueId id, int rank,
                                      const tuttiConfig_t* config) {
  return operation_call([&] { return init_rank(comm, nranks, id, rank, config); });
}

tuttiResult_t tuttiCommInitAll(tuttiComm_t* comms, int ndev, const int* devlist) {
  return operation_call([&] { return init_all(comms, ndev, devlist); });
}

tuttiResult_t tuttiCommInitFromEnv(tuttiComm_t* comm, const tuttiConfig_t* config) {
  return api_call([&] { return init_from_environment(comm, config); });
}

tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int color, int key, tuttiComm_t* newcomm, const tuttiConfig_t* config) {
  return operation_call([&]() -> Status {
    TUTTI_TRY(check_comm(comm));
    TUTTI_TRY(check_config(config));
    if (!newcomm) return invalid_argument("newcomm is NULL; it receives the communicator");
    if (color < 0 && color != TUTTI_SPLIT_NOCOLOR)
      return invalid_argument("color is {}; it must be at least 0, or TUTTI_SPLIT_NOCOLOR (-1)", color);
    *newcomm = nullptr;
    return submit_meeting([comm, color, key, newcomm, options = child_options(config)] {
      return hand_out(split(*comm->impl, color, key, options), newcomm);
    });
  });
}

tuttiResult_t tuttiCommShrink(tuttiComm_t comm, const int* exclude_ranks, int count, tuttiComm_t* newcomm,
                              const tuttiConfig_t* config, int flags) {
  return operation_call([&]() -> Status {
    TUTTI_TRY(check_comm(comm));
    TUTTI_TRY(check_config(config));
    if (!newcomm) return invalid_argument("newcomm is NULL; it receives the communicator");
    if (flags != TUTTI_SHRINK_DEFAULT && flags != TUTTI_SHRINK_ABORT)
      return invalid_argument("flags is {}; it can be TUTTI_SHRINK_DEFAULT (0) or TUTTI_SHRINK_ABORT (1)", flags);
    TUTTI_TRY_ASSIGN(std::vector<uint32_t> excluded, check_excluded(exclude_ranks, count, *comm->impl));
    if (flags == TUTTI_SHRINK_DEFAULT)
      TUTTI_TRY(comm->impl->error());
    else
      (void)comm->impl->latch(fail(tuttiRemoteError, "aborted by tuttiCommShrink"));
    *newcomm = nullptr;
    return submit_meeting([comm, excluded = std::move(excluded), newcomm, options = child_options(config)] {
      return hand_out(shrink(*comm->impl, excluded, options), newcomm);
    });
  });
}

tuttiResult_t tuttiCommGetUniqueId(tuttiComm_t comm, tuttiUniqueId* id) {
  return api_call([&]() -> Status {
    TUTTI_TRY(check_comm(comm));
    if (!id) return invalid_argument("id is NULL");
    TUTTI_TRY_ASSIGN(const MeetingPoint point, open_hub(comm->impl->config()));
    *id = encode(point);
    return {};
  });
}

tuttiResult_t tuttiCommGrow(tuttiComm_t comm, int nranks, const tuttiUniqueId* id, int rank, tuttiComm_t* newcomm,
                            const tuttiConfig_t* config) {
  return operation_call([&]() -> Status {
    if (!comm) {
      if (!id) return invalid_argument("a newcomer (comm NULL) must pass the id");
      return init_rank(newcomm, nranks, *id, rank, config);
    }
    TUTTI_TRY(check_comm(comm));
    TUTTI_TRY(check_config(config));
    if (!newcomm) return invalid_argument("newcomm is NULL; it receives the communicator");
    if (rank != -1) return invalid_argument("rank is {}; ranks of the old communicator keep theirs and pass -1", rank);
    if (nranks < static_cast<int>(comm->impl->nranks()))
      return invalid_argument("nranks is {}; the communicator already has {}", nranks,
                              static_cast<uint32_t>(comm->impl->nranks()));
    *newcomm = nullptr;
    return submit_meeting(
        [=, has_id = id != nullptr, copy = id ? *id : tuttiUniqueId{}, options = child_options(config)] {
          return hand_out(grow(*comm->impl, Rank{static_cast<uint32_t>(nranks)}, has_id ? &copy : nullptr, options),
                          newcomm);
        });
  });
}

tuttiResult_t tuttiCommFinalize(tuttiComm_t comm) {
  return api_call([&]() -> Status {
    TUTTI_TRY(check_comm(comm));
    TUTTI_TRY(check_not_in_open_group(comm));
    return comm->impl->finalize();
  });
}

tuttiResult_t tuttiCommDestroy(tuttiComm_t comm) {
  return api_call([&]() -> Status {
    TUTTI_TRY(check_comm(comm));
    TUTTI_TRY(check_not_in_open_group(comm));
    free_handle(comm);
    return {};
  });
}

tuttiResult_t tuttiCommAbort(tuttiComm_t comm) {
  return api_call([&]() -> Status {
    TUTTI_TRY(check_comm(comm));
    const Status aborted = comm->impl->latch_abort();
    if (open_group_needs(*comm->impl)) call_off_open_group(aborted);
    free_handle(comm);
    return {};
  });
}

tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* error) {
  return api_call([&]() -> Status {
    TUTTI_TRY(check_comm(comm));
    if (!error) return invalid_argument("error is NULL");
    *error = comm->impl->ask_for_error().code();
    return {};
  });
}

tuttiResult_t tuttiCommCount(tuttiComm_t comm, int* count) {
  return api_call([&]() -> Status {
    TUTTI_TRY(check_comm(comm));
    if (!count) return invalid_argument("count is NULL");
    *count = static_cast<int>(comm->impl->nranks());
    return {};
  });
}

tuttiResult_t tuttiCommUserRank(tuttiComm_t comm, int* rank) {
  return api_call([&]() -> Status {
    TUTTI_TRY(check_comm(comm));
    if (!rank) return invalid_argument("rank is NULL");
    *rank = static_cast<int>(comm->impl->rank());
    return {};
  });
}

tuttiResult_t tuttiCommDevice(tuttiComm_t comm, int* device) {
  return api_call([&]() -> Status {
    TUTTI_TRY(check_comm(comm));
    if (!device) return invalid_argument("device is NULL");
    *device = comm->impl->device() ? comm->impl->device()->index() : -1;
    return {};
  });
}
