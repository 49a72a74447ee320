#include "perf/world.h"

#include <cstdlib>
#include <utility>

namespace tutti::perf {
namespace {

constexpr int kMillisecondsPerSecond = 1000;

tuttiConfig_t config_of(const Options& options) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  if (options.timeout_seconds > 0) config.timeout_ms = options.timeout_seconds * kMillisecondsPerSecond;
  config.name = "perf";
  return config;
}

// A communicator that is destroyed with the scope.
struct Communicator {
  tuttiComm_t comm = nullptr;
  ~Communicator() {
    if (comm != nullptr) tuttiCommDestroy(comm);
  }
};

}  // namespace

Status library_status(tuttiResult_t result, const char* call, tuttiComm_t comm) {
  if (result == tuttiSuccess) return {};
  const char* sentence = tuttiGetLastError(comm);
  if (sentence[0] == '\0') sentence = tuttiGetErrorString(result);
  return Status(result, fmt::format("{}: {}", call, sentence));
}

Status all_reduce_memory(const Member& member, void* data, size_t count, tuttiDataType_t type, size_t type_bytes,
                         tuttiRedOp_t op) {
  const auto sum = [&](void* memory) {
    return library_status(tuttiAllReduce(memory, memory, count, type, op, member.comm, nullptr), "tuttiAllReduce",
                          member.comm);
  };
  int device = -1;
  TUTTI_TRY(library_status(tuttiCommDevice(member.comm, &device), "tuttiCommDevice", member.comm));
  if (device < 0) return sum(data);
  DeviceMemory memory;
  TUTTI_TRY(memory.allocate(count * type_bytes));
  TUTTI_TRY(library_status(tuttiMemCopy(memory.data(), data, count * type_bytes), "tuttiMemCopy"));
  TUTTI_TRY(sum(memory.data()));
  return library_status(tuttiMemCopy(data, memory.data(), count * type_bytes), "tuttiMemCopy");
}

Status all_reduce(const Member& member, double* values, size_t count, tuttiRedOp_t op) {
  return all_reduce_memory(member, values, count, tuttiFloat64, sizeof *values, op);
}

Status DeviceMemory::allocate(size_t bytes) {
  return library_status(tuttiMemAlloc(&data_, bytes), "tuttiMemAlloc");
}

bool World::launched() {
  for (const char* name : {"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

Status World::meet(const Options& options) {
  const auto threads = static_cast<size_t>(options.threads);
  members_.resize(threads);
  const tuttiConfig_t config = config_of(options);
  Communicator first;
  int process = 0, processes = 1;
  if (launched()) {
    TUTTI_TRY(library_status(tuttiCommInitFromEnv(&first.comm, &config), "tuttiCommInitFromEnv"));
    TUTTI_TRY(library_status(tuttiCommUserRank(first.comm, &process), "tuttiCommUserRank", first.comm));
    TUTTI_TRY(library_status(tuttiCommCount(first.comm, &processes), "tuttiCommCount", first.comm));
  }
  for (size_t t = 0; t < threads; ++t)
    members_[t] = {process * options.threads + static_cast<int>(t), processes * options.threads, processes, nullptr};
  if (launched() && threads == 1) {
    members_[0].comm = std::exchange(first.comm, nullptr);
    joined_ = true;
    return {};
  }
  // The others add zeros: a broadcast out of the one collective that every algorithm has.
  if (process == 0) TUTTI_TRY(library_status(tuttiGetUniqueId(&id_), "tuttiGetUniqueId"));
  if (processes == 1) return {};
  return all_reduce_memory({process, processes, processes, first.comm}, id_.internal, sizeof(id_.internal), tuttiUint8, 1,
                           tuttiSum);
}

Status World::join(const Options& options, int thread) {
  if (joined_) return {};
  const tuttiConfig_t config = config_of(options);
  Member& m = member(thread);
  return library_status(tuttiCommInitRankConfig(&m.comm, m.nranks, id_, m.rank, &config), "tuttiCommInitRankConfig");
}

Status World::join_all(const Options& options) {
  if (joined_) return {};
  TUTTI_TRY(library_status(tuttiGroupStart(), "tuttiGroupStart"));
  Status first_failure;
  for (int t = 0; t < options.threads; ++t) {
    const Status status = join(options, t);
    if (first_failure.ok()) first_failure = status;
  }
  const Status ended = library_status(tuttiGroupEnd(), "tuttiGroupEnd");
  return first_failure.ok() ? ended : first_failure;
}

}  // namespace tutti::perf
