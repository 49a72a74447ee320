// Bench: one rank's part of a run: goes through types, operations, roots and sizes, times, checks, and, on rank 0,
// prints. All ranks run the same calls in the same order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "perf/buffer.h"
#include "perf/check.h"
#include "perf/collective.h"
#include "perf/progress.h"
#include "perf/report.h"
#include "perf/world.h"

namespace tutti::perf {

// What rank 0 learnt, for the JSON report.
struct RunRecord {
  Header header;
  std::vector<ResultRow> rows;
  Footer footer;
};

class Bench {
 public:
  // References must outlive the Bench; `record` is written by rank 0 only.
  Bench(const PerfCollective& collective, const Options& options, const Member& member, const Stop& stop,
        RunRecord& record);
  ~Bench();

  // An error of the library, or an interruption (tuttiInvalidUsage, "interrupted"). Wrong results are no failure; see
  // wrong_here().
  Status run();
  // Elements that this rank found wrong in its own memory.
  uint64_t wrong_here() const { return wrong_here_; }

 private:
  // One size of one row, and the operation handle.
  struct Task {
    tuttiDataType_t type;
    Operation operation;
    tuttiRedOp_t op;
    int root;
    size_t bytes;
    uint64_t seed;
  };

  Status prepare();
  Status describe_ranks();
  void describe_choices();
  Choice choice_of(tuttiDataType_t type, size_t bytes) const;
  size_t count_of(tuttiDataType_t type, size_t bytes) const;

  Status run_cycle(int cycle);
  Status run_sizes(Task task);
  Status warm_up(Task task);
  Status measure_row(const Task& task);
  Status measure(const Task& task, bool in_place, Measurement& measurement);
  Status check(const CheckedCall& call, const Task& task, uint64_t& wrong);
  Status time_iterations(const CheckedCall& call, const Task& task, double& seconds_per_call);

  CheckedCall checked_call(const Task& task, bool in_place) const;
  Status iterate(const CheckedCall& call, const Task& task, bool on_stream);
  Status call_once(const CheckedCall& call, const Task& task, size_t shift_elements, bool on_stream);
  Status interrupted() const;
  std::byte* send_data() { return on_device_ ? device_send_.data() + kGuardBytes : send_.data(); }
  std::byte* recv_data() { return on_device_ ? device_recv_.data() + kGuardBytes : recv_.data(); }
  Status fill_buffers(const CheckedCall& call, const Pattern& pattern);
  Status fetch_buffers();
  bool speaks() const { return member_.rank == 0; }

  const PerfCollective& collective_;
  const Options& options_;
  const Member& member_;
  const Stop& stop_;
  RunRecord& record_;
  std::unique_ptr<Progress> progress_;
  // What is filled and compared; and, of a rank on a device, what calls are given, of the same size.
  Buffer send_, recv_;
  bool on_device_ = false;
  DeviceMemory device_send_, device_recv_;
  std::vector<void*> registrations_;
  tuttiStream_t stream_ = nullptr;
  uint64_t wrong_here_ = 0, wrong_everywhere_ = 0;
  double busbw_sum_ = 0;
  int busbw_count_ = 0;
};

}  // namespace tutti::perf
