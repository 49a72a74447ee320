// World: the ranks of this process, each a thread with a communicator of its own.
//
// Processes come from a launcher (tuttiCommInitFromEnv) when its variables are there; with several threads per process
// the ranks of all processes form one communicator, met by a unique id that the processes share over a first one.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "perf/options.h"
#include "tutti/tutti.h"

namespace tutti::perf {

// Why a thread stopped early, and what the process makes of it.
struct Stop {
  std::atomic<int> signal{0};  // the signal that asked for the end; set once, read between operations
};

struct Member {
  int rank = 0, nranks = 1, processes = 1;
  tuttiComm_t comm = nullptr;
};

// Memory of the library's, freed with the scope.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  ~DeviceMemory() { tuttiMemFree(data_); }
  Status allocate(size_t bytes);
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

// "call: library's sentence" as a failure, or success.
Status library_status(tuttiResult_t result, const char* call, tuttiComm_t comm = nullptr);

// Sums `values` over all ranks (or takes the least or the greatest) with the one collective that every algorithm has.
Status all_reduce(const Member& member, double* values, size_t count, tuttiRedOp_t op);

// The same of any elements, in place in host memory: by way of device memory where the rank works on that.
Status all_reduce_memory(const Member& member, void* data, size_t count, tuttiDataType_t type, size_t type_bytes,
                         tuttiRedOp_t op);

class World {
 public:
  // Whether a launcher started this process.
  static bool launched();
  // The unique id and this process's first rank; collective over processes. Blocks until all are there.
  Status meet(const Options& options);
  // Rank `thread`'s communicator. With parallel_init called by each thread at the same time, else by the first for all.
  Status join(const Options& options, int thread);
  Status join_all(const Options& options);

  Member& member(int thread) { return members_[static_cast<size_t>(thread)]; }

 private:
  std::vector<Member> members_;
  tuttiUniqueId id_{};
  bool joined_ = false;  // meet() already made the only communicator
};

}  // namespace tutti::perf
