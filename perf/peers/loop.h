// Loop: how every library in the comparison is measured, so that no two can be measured differently.
//
// Per size: one call whose result is checked, warm-up, a calibration that sets the number of iterations, then several
// repetitions. Each repetition is a loop of back-to-back calls that starts at a barrier; its time is that of the
// slowest rank, divided by the iterations. Rank 0 prints one line of JSON per size:
//   {"collective": "all_reduce", "bytes": 1024, "iterations": 9000, "times_us": [0.31, ...], "ping_ns": [51, ...],
//    "displaced": [0.001, ...], "algorithm": ""}
// with one time per repetition, the distance between ranks 0 and 1 before each and after the last (distance.h; none
// without --distance), and which part of the time a rank was ready to run but somebody else had its core (the most of
// any rank). Whoever reads them takes the median of the times at one distance, of ranks that had their core to
// themselves.
//
// "bytes" is as in nccl-tests: what a rank contributes to all_reduce and reduce_scatter, what it has after all_gather
// and broadcast. Elements are float32, the operation is the sum, buffers are out of place (broadcast: the root's is the
// one buffer that MPI has).
//
// A Library has, besides the members that the concept lists:
//   allocate   page-aligned memory of the kind that is measured, never freed; null when there is none
//   prepare    what a user would do once for many calls of this shape
//   run        one blocking collective
//   algorithm  what run() would use, where the library says so; else ""
//   maximum    values[i] = the greatest over ranks, for all ranks
// Every call is collective; a failure ends the process with a message.
#pragma once

#include <sched.h>

#include <algorithm>
#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "distance.h"

namespace tutti::bench {

enum class Collective { all_reduce, reduce_scatter, all_gather, broadcast };
inline constexpr std::string_view kCollectiveNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"};

// count: the elements of all_reduce and broadcast, and each rank's part of reduce_scatter and all_gather.
struct Call {
  Collective collective;
  float* send;
  float* recv;
  size_t count;
};

template <class L>
concept Library = requires(L library, const Call& call, double* values, size_t n) {
  { library.rank() } -> std::same_as<int>;
  { library.nranks() } -> std::same_as<int>;
  { library.allocate(n) } -> std::same_as<void*>;
  library.prepare(call);
  library.run(call);
  { library.algorithm(call) } -> std::convertible_to<std::string_view>;
  library.barrier();
  library.maximum(values, n);
};

struct Options {
  Collective collective = Collective::all_reduce;
  std::vector<size_t> sizes;
  int repetitions = 5;
  double seconds = 0.15;    // of measuring per size, roughly: a repetition is at least one call
  bool pin = false;         // bind rank r of this host to the r-th processor it may use
  bool registered = false;  // memory from the library, registered with it
  std::string algorithm;    // of libraries that have a choice
  std::string store;        // a folder where ranks meet
  std::string distance;     // a file of zeros through which ranks 0 and 1, bound to a processor each, play ping-pong
};

[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

inline Collective collective_named(std::string_view name) {
  const auto* found = std::find(std::begin(kCollectiveNames), std::end(kCollectiveNames), name);
  if (found == std::end(kCollectiveNames)) fail("no such collective");
  return static_cast<Collective>(found - std::begin(kCollectiveNames));
}

inline std::vector<size_t> parse_sizes(const char* text) {
  std::vector<size_t> sizes;
  for (char* end = nullptr; *text != '\0'; text = *end == ',' ? end + 1 : end) {
    sizes.push_back(std::strtoull(text, &end, 10));
    if (end == text || (*end != ',' && *end != '\0')) fail("--sizes takes numbers of bytes, separated by commas");
  }
  return sizes;
}

// Every option takes a value but --pin and --registered.
inline Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--pin") {
      options.pin = true;
    } else if (name == "--registered") {
      options.registered = true;
    } else if (i + 1 == argc) {
      fail(
          "usage: --collective NAME --sizes BYTES,... [--repetitions N] [--seconds S] [--pin] [--registered] "
          "[--algorithm NAME] [--store FOLDER] [--distance FILE]");
    } else if (const char* value = argv[++i]; name == "--collective") {
      options.collective = collective_named(value);
    } else if (name == "--sizes") {
      options.sizes = parse_sizes(value);
    } else if (name == "--repetitions") {
      options.repetitions = std::max(1, std::atoi(value));
    } else if (name == "--seconds") {
      options.seconds = std::atof(value);
    } else if (name == "--algorithm") {
      options.algorithm = value;
    } else if (name == "--store") {
      options.store = value;
    } else if (name == "--distance") {
      options.distance = value;
    } else {
      fail("no such option");
    }
  }
  return options;
}

// Binds the calling thread to the index-th processor that it may use, if there are so many.
inline void pin_to(int index) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) fail("sched_getaffinity failed");
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || index-- > 0) continue;
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) fail("sched_setaffinity failed");
    return;
  }
}

// How long this thread has waited for a core since it began, though it was ready to run. 0 where the kernel does not
// say.
inline double displaced_seconds() {
  unsigned long long ran_ns = 0, waited_ns = 0;
  if (std::FILE* file = std::fopen("/proc/thread-self/schedstat", "re")) {
    if (std::fscanf(file, "%llu %llu", &ran_ns, &waited_ns) != 2) waited_ns = 0;
    std::fclose(file);
  }
  return static_cast<double>(waited_ns) * 1e-9;
}

// Of one loop on this rank.
struct Timed {
  double seconds;    // per call
  double displaced;  // part of the time
};

template <Library L, class Operation>
Timed time_loop(L& library, long iterations, Operation&& operation) {
  const double displaced_before = displaced_seconds();
  library.barrier();
  const double start = now_seconds();
  for (long i = 0; i < iterations; ++i) operation();
  const double took = now_seconds() - start;
  return {took / static_cast<double>(iterations), (displaced_seconds() - displaced_before) / took};
}

struct Measured {
  long iterations = 0;
  std::vector<double> times_us;   // one per repetition, the slowest rank's
  std::vector<double> displaced;  // one per repetition, the greatest of any rank
  std::vector<double> ping_ns;    // one more, rank 0's; or none
};

// `distance`: null where it is not measured.
template <Library L, class Operation>
Measured measure(L& library, const Options& options, Distance* distance, Operation&& operation) {
  // Warm-up and calibration: a tenth of the time and at least one call, in loops that grow, so that calls of less than
  // a microsecond are not timed one by one. The quickest loop counts: a stall in it must not lead to few iterations.
  double one = 1e9, spent = 0;
  for (long iterations = 1; spent < options.seconds / 10; iterations = std::min(iterations * 4, 4096L)) {
    double time = time_loop(library, iterations, operation).seconds;
    library.maximum(&time, 1);
    spent += time * static_cast<double>(iterations);
    one = std::min(one, time);
  }
  const double share = options.seconds / options.repetitions;
  Measured measured{.iterations = std::clamp(static_cast<long>(share / one), 1L, 100'000L)};
  const auto ping = [&] {
    if (distance != nullptr) measured.ping_ns.push_back(distance->measure_ns());
  };
  ping();
  for (int r = 0; r < options.repetitions; ++r) {
    const Timed timed = time_loop(library, measured.iterations, operation);
    measured.times_us.push_back(timed.seconds * 1e6);
    measured.displaced.push_back(timed.displaced);
    ping();
  }
  library.maximum(measured.times_us.data(), measured.times_us.size());
  library.maximum(measured.displaced.data(), measured.displaced.size());
  return measured;
}

inline void print_list(const char* name, const char* format, const std::vector<double>& values) {
  std::printf(", \"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) {
    std::printf("%s", i == 0 ? "" : ", ");
    std::printf(format, values[i]);
  }
  std::printf("]");
}

inline void print_measured(std::string_view name, size_t bytes, const Measured& measured, std::string_view algorithm) {
  std::printf("{\"collective\": \"%.*s\", \"bytes\": %zu, \"iterations\": %ld", static_cast<int>(name.size()),
              name.data(), bytes, measured.iterations);
  print_list("times_us", "%.4f", measured.times_us);
  print_list("displaced", "%.4f", measured.displaced);
  print_list("ping_ns", "%.1f", measured.ping_ns);
  std::printf(", \"algorithm\": \"%.*s\"}\n", static_cast<int>(algorithm.size()), algorithm.data());
  std::fflush(stdout);
}

// The file of --distance, seen from this rank; null without.
inline std::unique_ptr<Distance> open_distance(const Options& options, int rank) {
  if (options.distance.empty()) return nullptr;
  Ball* ball = Distance::map(options.distance);
  if (ball == nullptr) fail("the file of --distance cannot be mapped");
  return std::make_unique<Distance>(ball, rank);
}

// Small integers, so that sums are exact in any order and differ where elements or ranks are mixed up.
inline float input(int rank, size_t i) { return static_cast<float>(i % 13) + static_cast<float>(rank); }

// Element i of what `call` leaves at `rank`.
inline float expected(const Call& call, int rank, int nranks, size_t i) {
  const auto sum_at = [&](size_t at) {
    return static_cast<float>(nranks) * input(0, at) + static_cast<float>(nranks * (nranks - 1) / 2);
  };
  switch (call.collective) {
    case Collective::all_reduce:
      return sum_at(i);
    case Collective::reduce_scatter:
      return sum_at(static_cast<size_t>(rank) * call.count + i);
    case Collective::all_gather:
      return input(static_cast<int>(i / call.count), i % call.count);
    case Collective::broadcast:
      return input(0, i);
  }
  return 0;
}

template <Library L>
void run_checked(L& library, const Call& call) {
  library.run(call);
  const int rank = library.rank();
  const bool at_root = call.collective == Collective::broadcast && rank == 0;
  const float* result = at_root ? call.send : call.recv;
  const size_t count =
      call.collective == Collective::all_gather ? call.count * static_cast<size_t>(library.nranks()) : call.count;
  for (size_t i = 0; i < count; ++i) {
    if (result[i] != expected(call, rank, library.nranks(), i)) fail("the result is wrong");
  }
}

// All sizes of the options. The buffers are as large as the largest size needs, the same for all.
template <Library L>
void run_all(L& library, const Options& options) {
  const auto nranks = static_cast<size_t>(library.nranks());
  const bool parted = options.collective == Collective::reduce_scatter || options.collective == Collective::all_gather;
  const auto elements_of = [&](size_t bytes) {  // in parts of equal size, none empty
    const size_t elements = std::max<size_t>(bytes / sizeof(float), 1);
    return parted ? std::max<size_t>(elements / nranks, 1) * nranks : elements;
  };
  size_t most = 1;
  for (size_t bytes : options.sizes) most = std::max(most, elements_of(bytes));
  auto* send = static_cast<float*>(library.allocate(most * sizeof(float)));
  auto* recv = static_cast<float*>(library.allocate(most * sizeof(float)));
  if (send == nullptr || recv == nullptr) fail("no memory");
  for (size_t i = 0; i < most; ++i) send[i] = input(library.rank(), i);
  std::memset(recv, 0, most * sizeof(float));
  const auto distance = open_distance(options, library.rank());
  for (size_t bytes : options.sizes) {
    const size_t elements = elements_of(bytes);
    const Call call{options.collective, send, recv, parted ? elements / nranks : elements};
    library.prepare(call);
    run_checked(library, call);
    const Measured measured = measure(library, options, distance.get(), [&] { library.run(call); });
    if (library.rank() == 0) {
      print_measured(kCollectiveNames[static_cast<int>(call.collective)], bytes, measured, library.algorithm(call));
    }
  }
}

// As the peers' users allocate.
inline void* allocate_pages(size_t bytes) {
  void* pointer = nullptr;
  return posix_memalign(&pointer, 4096, bytes) == 0 ? pointer : nullptr;
}

}  // namespace tutti::bench
