// The floor: what two processors could do at best.
//
// in_place_*       an ideal AllReduce of two ranks, in place, over memory that both have mapped: each folds its half of
//                  both buffers and writes the sum into both. Every byte is read once and written once; nothing is
//                  staged.
// out_of_place_*   the same into two other buffers.
// copy_*           both processors copy a buffer of that size each, private memory
// each with ordinary stores (*_ordinary), which leave the result in the caches, and with streaming stores
// (*_streaming), which do not read what they overwrite. The better of the two is the floor at that size.
//
//   floor --sizes BYTES,... [--repetitions N] [--seconds S] [--huge]    lines of JSON, as in peers/loop.h
// --huge asks for huge pages; shared memory gets them only where the system's shmem_enabled allows.
#include <hwy/cache_control.h>
#include <hwy/highway.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <new>

#include "peers/loop.h"

namespace {

namespace hn = hwy::HWY_NAMESPACE;
using tutti::bench::Call;

constexpr size_t kMaxValues = 256;
constexpr size_t kUnroll = 4;

// Shared by the two processes. A side waits until the other has arrived as often as it has itself; the acquire makes
// visible what the other wrote before.
struct Control {
  struct alignas(128) Side {
    std::atomic<uint64_t> arrived{0};
    double values[kMaxValues];
  } sides[2];
};

// Consecutive mappings lie next to each other, so it matters how long they are: on AMD's Zen 3 two addresses that
// differ in nothing but bits 28 and up take each other's place in the L1 cache (its ways are predicted from the lower
// bits), and a fold of two buffers 256 MiB apart takes 27 us where 2.2 are normal. An odd number of pages more keeps
// them apart.
void* map(size_t bytes, int kind, bool huge) {
  constexpr size_t kApart = 17 * 4096;
  void* pointer = mmap(nullptr, bytes + kApart, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
  if (pointer == MAP_FAILED) tutti::bench::fail("mmap failed");
  if (huge) madvise(pointer, bytes, MADV_HUGEPAGE);  // a wish: without it, pages are small
  return pointer;
}

// A side of the pair, as a Library of loop.h.
class Side {
 public:
  Side(Control& control, int rank) : control_(control), rank_(rank) {}
  int rank() const { return rank_; }
  int nranks() const { return 2; }
  void* allocate(size_t bytes) { return map(bytes, MAP_PRIVATE, true); }
  void prepare(const Call&) {}
  void run(const Call&) {}
  const char* algorithm(const Call&) { return ""; }
  void barrier() {
    const uint64_t mine = ++arrivals_;
    control_.sides[rank_].arrived.store(mine, std::memory_order_release);
    while (control_.sides[1 - rank_].arrived.load(std::memory_order_acquire) < mine) hwy::Pause();
  }
  void maximum(double* values, size_t n) {
    if (n > kMaxValues) tutti::bench::fail("at most 256 repetitions");
    std::memcpy(control_.sides[rank_].values, values, n * sizeof *values);
    barrier();
    for (size_t i = 0; i < n; ++i) values[i] = std::max(values[i], control_.sides[1 - rank_].values[i]);
    barrier();
  }

 private:
  Control& control_;
  int rank_;
  uint64_t arrivals_ = 0;
};

// a + b into two places. Sizes are multiples of kUnroll vectors; a rest would be measured by nobody.
template <bool kStreaming>
void fold_into_both(const float* a, const float* b, float* to_a, float* to_b, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto store = [&](auto v, float* to) {
    if constexpr (kStreaming) {
      hn::Stream(v, d, to);
    } else {
      hn::Store(v, d, to);
    }
  };
  for (size_t i = 0; i + kUnroll * lanes <= count; i += kUnroll * lanes) {
    for (size_t k = 0; k < kUnroll; ++k) {
      const size_t at = i + k * lanes;
      const auto sum = hn::Add(hn::Load(d, a + at), hn::Load(d, b + at));
      store(sum, to_a + at);
      store(sum, to_b + at);
    }
  }
  if constexpr (kStreaming) hwy::FlushStream();
}

void copy_streaming(const float* from, float* to, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i + lanes <= count; i += lanes) hn::Stream(hn::Load(d, from + i), d, to + i);
  hwy::FlushStream();
}

struct Buffers {
  float *in[2], *out[2];  // both ranks', shared
  float *private_in, *private_out;
};

struct Run {
  const tutti::bench::Options& options;
  tutti::bench::Distance* distance;
};

template <class Operation>
void report(Side& side, const Run& run, const char* name, size_t bytes, Operation&& operation) {
  const auto measured = tutti::bench::measure(side, run.options, run.distance, operation);
  if (side.rank() == 0) tutti::bench::print_measured(name, bytes, measured, "");
}

void run_size(Side& side, const Run& run, const Buffers& b, size_t bytes) {
  const size_t count = bytes / sizeof(float), first = side.rank() == 0 ? 0 : count / 2;
  const auto reduce = [&](auto fold, float* const* out) {
    return [&side, &b, fold, out, first, half = count / 2] {
      side.barrier();  // the other's input is there
      fold(b.in[0] + first, b.in[1] + first, out[0] + first, out[1] + first, half);
      side.barrier();  // the other's half is there
    };
  };
  report(side, run, "in_place_ordinary", bytes, reduce(fold_into_both<false>, b.in));
  report(side, run, "in_place_streaming", bytes, reduce(fold_into_both<true>, b.in));
  report(side, run, "out_of_place_ordinary", bytes, reduce(fold_into_both<false>, b.out));
  report(side, run, "out_of_place_streaming", bytes, reduce(fold_into_both<true>, b.out));
  report(side, run, "copy_ordinary", bytes, [&] { std::memcpy(b.private_out, b.private_in, bytes); });
  report(side, run, "copy_streaming", bytes, [&] { copy_streaming(b.private_in, b.private_out, count); });
}

void run_side(Control& control, int rank, const tutti::bench::Options& options, Buffers buffers, size_t most) {
  tutti::bench::pin_to(rank);
  Side side(control, rank);
  buffers.private_in = static_cast<float*>(side.allocate(most));
  buffers.private_out = static_cast<float*>(side.allocate(most));
  for (float* mine : {buffers.in[rank], buffers.out[rank], buffers.private_in, buffers.private_out})
    std::memset(mine, 0, most);  // each has its own pages near it
  side.barrier();
  const auto distance = tutti::bench::open_distance(options, rank);
  for (size_t bytes : options.sizes) run_size(side, {options, distance.get()}, buffers, bytes);
}

}  // namespace

int main(int argc, char** argv) {
  bool huge = false;
  std::vector<char*> arguments;
  for (int i = 0; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--huge") {
      huge = true;
    } else {
      arguments.push_back(argv[i]);
    }
  }
  const auto options = tutti::bench::parse_options(static_cast<int>(arguments.size()), arguments.data());
  size_t most = 0;
  for (size_t bytes : options.sizes) {
    if (bytes % 4096 != 0) tutti::bench::fail("the floor is measured for multiples of 4096 bytes");
    most = std::max(most, bytes);
  }
  if (most == 0) return 0;
  auto* control = new (map(sizeof(Control), MAP_SHARED, false)) Control;
  Buffers buffers{};
  for (int rank : {0, 1}) {
    buffers.in[rank] = static_cast<float*>(map(most, MAP_SHARED, huge));
    buffers.out[rank] = static_cast<float*>(map(most, MAP_SHARED, huge));
  }
  const pid_t child = fork();
  if (child < 0) tutti::bench::fail("fork failed");
  run_side(*control, child == 0 ? 1 : 0, options, buffers, most);
  if (child == 0) return 0;
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}
