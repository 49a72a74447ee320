#include "perf/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <span>

#include "base/clock.h"
#include "base/host.h"
#include "perf/print.h"

namespace tutti::perf {

Bench::Bench(const PerfCollective& collective, const Options& options, const Member& member, const Stop& stop,
             RunRecord& record)
    : collective_(collective), options_(options), member_(member), stop_(stop), record_(record) {}

Bench::~Bench() {
  for (void* handle : registrations_) tuttiCommDeregister(member_.comm, handle);
  if (stream_ != nullptr) tuttiStreamDestroy(stream_);
}

Status Bench::interrupted() const {
  if (stop_.signal.load(std::memory_order_relaxed) == 0) return {};  // relaxed: a flag that guards no data
  return invalid_usage("interrupted");
}

Status Bench::run() {
  TUTTI_TRY(prepare());
  TUTTI_TRY(describe_ranks());
  const size_t roots = !collective_.rooted ? 1 : options_.all_roots ? static_cast<size_t>(member_.nranks) : 1;
  const size_t operations = collective_.reduces ? options_.operations.size() : 1;
  const size_t rows = options_.sizes().size() * options_.types.size() * operations * roots;
  if (speaks()) {
    describe_choices();
    TUTTI_TRY(print_out(header_text(record_.header)));
    progress_ = std::make_unique<Progress>(rows * static_cast<size_t>(options_.cycles));
  }
  for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle) TUTTI_TRY(run_cycle(cycle));
  if (!speaks()) return {};
  progress_->clear();
  Footer& footer = record_.footer;
  footer.program = collective_.program;
  footer.wrong = wrong_everywhere_;
  footer.average_busbw = busbw_count_ > 0 ? busbw_sum_ / busbw_count_ : 0;
  // The name that scripts written for nccl-tests set.
  if (const char* least = std::getenv("NCCL_TESTS_MIN_BW")) footer.least_busbw = std::strtod(least, nullptr);
  TUTTI_TRY(print_out(footer_text(footer)));
  return {};
}

Status Bench::prepare() {
  const Memory memory = options_.register_buffers ? Memory::shareable : Memory::anonymous;
  send_ = Buffer(options_.max_bytes, memory);
  recv_ = Buffer(options_.max_bytes, memory);
  if (!send_.valid() || !recv_.valid())
    return fail(tuttiSystemError, "not enough memory for two buffers of {} bytes; give a smaller --maxbytes (-e)",
                options_.max_bytes);
  int device = -1;
  TUTTI_TRY(library_status(tuttiCommDevice(member_.comm, &device), "tuttiCommDevice", member_.comm));
  on_device_ = device >= 0;
  if (on_device_)
    for (DeviceMemory* memory : {&device_send_, &device_recv_})
      TUTTI_TRY(memory->allocate(options_.max_bytes + 2 * kGuardBytes));
  if (options_.register_buffers) {
    for (std::byte* data : {send_data(), recv_data()}) {
      void* handle = nullptr;
      TUTTI_TRY(library_status(tuttiCommRegister(member_.comm, data, options_.max_bytes, &handle), "tuttiCommRegister",
                               member_.comm));
      registrations_.push_back(handle);
    }
  }
  if (options_.blocking == 0) TUTTI_TRY(library_status(tuttiStreamCreate(&stream_), "tuttiStreamCreate"));
  return {};
}

// Guard zones and all.
Status Bench::fill_buffers(const CheckedCall& call, const Pattern& pattern) {
  fill(call, pattern, send_, recv_);
  if (!on_device_) return {};
  const size_t bytes = options_.max_bytes + 2 * kGuardBytes;
  TUTTI_TRY(library_status(tuttiMemCopy(device_send_.data(), send_.data() - kGuardBytes, bytes), "tuttiMemCopy"));
  return library_status(tuttiMemCopy(device_recv_.data(), recv_.data() - kGuardBytes, bytes), "tuttiMemCopy");
}

Status Bench::fetch_buffers() {
  if (!on_device_) return {};
  const size_t bytes = options_.max_bytes + 2 * kGuardBytes;
  TUTTI_TRY(library_status(tuttiMemCopy(send_.data() - kGuardBytes, device_send_.data(), bytes), "tuttiMemCopy"));
  return library_status(tuttiMemCopy(recv_.data() - kGuardBytes, device_recv_.data(), bytes), "tuttiMemCopy");
}

size_t Bench::count_of(tuttiDataType_t type, size_t bytes) const {
  const size_t count = bytes / type_bytes(type);
  return collective_.split_by_ranks ? count / static_cast<size_t>(member_.nranks) : count;
}

CheckedCall Bench::checked_call(const Task& task, bool in_place) const {
  const Job job{member_.rank, member_.nranks, std::max(task.root, 0), count_of(task.type, task.bytes)};
  return {job, task.type, collective_.window(job.count, static_cast<size_t>(job.nranks)), collective_.blocks(job),
          in_place};
}

Status Bench::call_once(const CheckedCall& call, const Task& task, size_t shift_elements, bool on_stream) {
  const size_t bytes = type_bytes(task.type);
  const Parts parts = parts_of(call);
  std::byte* send = (call.in_place ? recv_data() : send_data()) + (parts.send_first + shift_elements) * bytes;
  std::byte* recv = recv_data() + (parts.recv_first + shift_elements) * bytes;
  const Call c{send, recv, call.job, task.type, task.op, member_.comm, on_stream ? stream_ : nullptr};
  return library_status(collective_.call(c), collective_.name, member_.comm);
}

// One iteration: a call, or a group of calls on windows beside each other, as far as the buffers have room for them.
Status Bench::iterate(const CheckedCall& call, const Task& task, bool on_stream) {
  if (options_.aggregated == 1) {
    TUTTI_TRY(call_once(call, task, 0, on_stream));
  } else {
    const size_t window = std::max<size_t>({call.window.send, call.window.recv, 1});
    const size_t places = std::max<size_t>(1, options_.max_bytes / (window * type_bytes(task.type)));
    TUTTI_TRY(library_status(tuttiGroupStart(), "tuttiGroupStart"));
    Status failure;
    for (int i = 0; i < options_.aggregated && failure.ok(); ++i)
      failure = call_once(call, task, (static_cast<size_t>(i) % places) * window, on_stream);
    const Status ended = library_status(tuttiGroupEnd(), "tuttiGroupEnd", member_.comm);
    TUTTI_TRY(failure);
    TUTTI_TRY(ended);
  }
  if (options_.blocking != 1) return {};
  return library_status(tuttiBarrier(member_.comm, nullptr), "tuttiBarrier", member_.comm);
}

Status Bench::time_iterations(const CheckedCall& call, const Task& task, double& seconds_per_call) {
  TUTTI_TRY(library_status(tuttiBarrier(member_.comm, nullptr), "tuttiBarrier", member_.comm));
  const bool on_stream = stream_ != nullptr;
  const Nanoseconds started = steady_now();
  for (int i = 0; i < options_.iterations; ++i) {
    TUTTI_TRY(interrupted());
    TUTTI_TRY(iterate(call, task, on_stream));
  }
  const Nanoseconds issued = steady_now();
  if (on_stream) TUTTI_TRY(library_status(tuttiStreamSynchronize(stream_), "tuttiStreamSynchronize", member_.comm));
  const Nanoseconds ended = options_.cpu_time ? issued : steady_now();
  const double calls = static_cast<double>(options_.iterations) * options_.aggregated;
  seconds_per_call = static_cast<double>(ended - started) / static_cast<double>(kSecond) / calls;

  // One number of all ranks; rank 0's own is the sum when the others give 0.
  tuttiRedOp_t op = tuttiSum;
  if (options_.average == Average::rank0 && member_.rank != 0) seconds_per_call = 0;
  if (options_.average == Average::min) op = tuttiMin;
  if (options_.average == Average::max) op = tuttiMax;
  TUTTI_TRY(all_reduce(member_, &seconds_per_call, 1, op));
  if (options_.average == Average::mean) seconds_per_call /= member_.nranks;
  return {};
}

Status Bench::check(const CheckedCall& call, const Task& task, uint64_t& wrong) {
  wrong = 0;
  for (int pass = 0; pass < options_.checks; ++pass) {
    TUTTI_TRY(interrupted());
    const uint64_t seed = mix(task.seed + static_cast<uint64_t>(2 * pass + (call.in_place ? 1 : 0)));
    const Pattern pattern(task.type, task.operation, member_.nranks, seed);
    TUTTI_TRY(fill_buffers(call, pattern));
    TUTTI_TRY(library_status(tuttiBarrier(member_.comm, nullptr), "tuttiBarrier", member_.comm));
    TUTTI_TRY(call_once(call, task, 0, stream_ != nullptr));
    if (stream_ != nullptr)
      TUTTI_TRY(library_status(tuttiStreamSynchronize(stream_), "tuttiStreamSynchronize", member_.comm));
    TUTTI_TRY(fetch_buffers());
    const Wrong found = find_wrong(call, pattern, send_, recv_);
    wrong += found.total();
    if (found.total() == 0) continue;
    print_error(fmt::format("{}: rank {}: {} wrong of {} {} {} ({}): {}\n", collective_.program, member_.rank,
                            found.total(), call.window.recv, type_name(task.type), operation_name(task.operation),
                            call.in_place ? "in place" : "out of place", found.first));
  }
  wrong_here_ += wrong;
  return {};
}

Status Bench::measure(const Task& task, bool in_place, Measurement& measurement) {
  const CheckedCall call = checked_call(task, in_place);
  TUTTI_TRY(fill_buffers(call, Pattern(task.type, task.operation, member_.nranks, task.seed)));
  double seconds = 0;
  TUTTI_TRY(time_iterations(call, task, seconds));
  const size_t elements = std::max(call.window.send, call.window.recv);
  const double gigabytes = static_cast<double>(elements * type_bytes(task.type)) / 1e9;
  measurement.time_us = seconds * 1e6;
  measurement.algbw = seconds > 0 ? gigabytes / seconds : 0;
  measurement.busbw = measurement.algbw * collective_.bus_factor(member_.nranks);
  busbw_sum_ += measurement.busbw;
  ++busbw_count_;
  if (options_.checks == 0) return {};
  uint64_t wrong = 0;
  TUTTI_TRY(check(call, task, wrong));
  auto everywhere = static_cast<double>(wrong);
  TUTTI_TRY(all_reduce(member_, &everywhere, 1, tuttiSum));
  measurement.wrong = static_cast<uint64_t>(everywhere);
  wrong_everywhere_ += *measurement.wrong;
  return {};
}

Status Bench::measure_row(const Task& task) {
  ResultRow row;
  row.bytes = task.bytes;
  row.type = task.type;
  row.operation = task.operation;
  row.root = task.root;
  row.iterations = options_.iterations;
  const CheckedCall call = checked_call(task, false);
  row.count = call.job.count;
  row.bytes = std::max(call.window.send, call.window.recv) * type_bytes(task.type);
  if (speaks())
    progress_->step(fmt::format("{} {} {} {} B", collective_.program, type_name(task.type),
                                operation_name(task.operation), row.bytes));
  TUTTI_TRY(measure(task, false, row.out_of_place));
  if (collective_.in_place) TUTTI_TRY(measure(task, true, row.in_place.emplace()));
  if (!speaks()) return {};
  row.choice = choice_of(task.type, task.bytes);
  progress_->clear();
  TUTTI_TRY(print_out(row_text(row)));
  record_.rows.push_back(std::move(row));
  return {};
}

Status Bench::warm_up(Task task) {
  for (const size_t bytes : {options_.max_bytes, options_.min_bytes}) {
    task.bytes = bytes;
    const CheckedCall call = checked_call(task, false);
    TUTTI_TRY(fill_buffers(call, Pattern(task.type, task.operation, member_.nranks, task.seed)));
    for (int i = 0; i < options_.warmup_iterations; ++i) {
      TUTTI_TRY(interrupted());
      TUTTI_TRY(iterate(call, task, stream_ != nullptr));
    }
    if (stream_ != nullptr)
      TUTTI_TRY(library_status(tuttiStreamSynchronize(stream_), "tuttiStreamSynchronize", member_.comm));
  }
  return {};
}

Status Bench::run_sizes(Task task) {
  TUTTI_TRY(warm_up(task));
  for (const size_t bytes : options_.sizes()) {
    task.bytes = bytes;
    task.seed = mix(task.seed + bytes + 1);
    TUTTI_TRY(interrupted());
    TUTTI_TRY(measure_row(task));
  }
  return {};
}

Status Bench::run_cycle(int cycle) {
  const std::vector<Operation> none = {Operation::none};
  std::vector<int> roots = collective_.rooted ? options_.roots : std::vector<int>{-1};
  if (collective_.rooted && options_.all_roots) {
    roots.clear();
    for (int r = 0; r < member_.nranks; ++r) roots.push_back(r);
  }
  for (const tuttiDataType_t type : options_.types) {
    for (const Operation operation : collective_.reduces ? options_.operations : none) {
      auto op = operation == Operation::none ? tuttiSum : static_cast<tuttiRedOp_t>(operation);
      if (operation == Operation::mulsum) {
        const uint64_t scalar = mulsum_scalar_bits(type, member_.rank);
        TUTTI_TRY(library_status(tuttiRedOpCreatePreMulSum(&op, &scalar, type, member_.comm),
                                 "tuttiRedOpCreatePreMulSum", member_.comm));
      }
      for (const int root : roots) {
        const auto kind = static_cast<uint64_t>(type) * 32 + static_cast<uint64_t>(operation) + 1;
        const uint64_t seed = mix(mix(static_cast<uint64_t>(cycle) * 1024 + kind) + static_cast<uint64_t>(root + 1));
        TUTTI_TRY(run_sizes({type, operation, op, root, 0, seed}));
      }
      if (operation == Operation::mulsum)
        TUTTI_TRY(library_status(tuttiRedOpDestroy(op, member_.comm), "tuttiRedOpDestroy", member_.comm));
    }
  }
  return {};
}

}  // namespace tutti::perf
