// Tutti in the loop of loop.h, under `tutti run`.
#include <tutti/tutti.h>

#include "loop.h"

namespace {

using tutti::bench::Call;
using tutti::bench::Collective;

void check(tuttiResult_t result) {
  if (result != tuttiSuccess) tutti::bench::fail(tuttiGetLastError(nullptr));
}

class Tutti {
 public:
  explicit Tutti(const tutti::bench::Options& options) : registered_(options.registered) {
    check(tuttiCommInitFromEnv(&comm_, nullptr));
    check(tuttiCommUserRank(comm_, &rank_));
    check(tuttiCommCount(comm_, &nranks_));
    // Only now: Tutti takes the affinity mask for all the cores that the ranks share. Ranks of one host.
    if (options.pin) tutti::bench::pin_to(rank_);
  }
  ~Tutti() { check(tuttiCommDestroy(comm_)); }
  Tutti(const Tutti&) = delete;
  Tutti& operator=(const Tutti&) = delete;

  int rank() const { return rank_; }
  int nranks() const { return nranks_; }
  void* allocate(size_t bytes) {
    if (!registered_) return tutti::bench::allocate_pages(bytes);
    void *pointer = nullptr, *handle = nullptr;
    check(tuttiMemAlloc(&pointer, bytes));
    check(tuttiCommRegister(comm_, pointer, bytes, &handle));
    return pointer;
  }
  void prepare(const Call&) {}

  void run(const Call& call) {
    float* whole = rank_ == 0 ? call.send : call.recv;
    switch (call.collective) {
      case Collective::all_reduce:
        return check(tuttiAllReduce(call.send, call.recv, call.count, tuttiFloat32, tuttiSum, comm_, nullptr));
      case Collective::reduce_scatter:
        return check(tuttiReduceScatter(call.send, call.recv, call.count, tuttiFloat32, tuttiSum, comm_, nullptr));
      case Collective::all_gather:
        return check(tuttiAllGather(call.send, call.recv, call.count, tuttiFloat32, comm_, nullptr));
      case Collective::broadcast:
        return check(tuttiBroadcast(whole, whole, call.count, tuttiFloat32, 0, comm_, nullptr));
    }
  }
  const char* algorithm(const Call& call) {
    tuttiChoice_t choice{};
    choice.size = sizeof choice;
    const char* collective = tutti::bench::kCollectiveNames[static_cast<int>(call.collective)].data();
    check(tuttiCommQueryChoice(comm_, collective, call.count, tuttiFloat32, &choice));
    return choice.algorithm;
  }
  void barrier() { check(tuttiBarrier(comm_, nullptr)); }
  void maximum(double* values, size_t n) {
    check(tuttiAllReduce(values, values, n, tuttiFloat64, tuttiMax, comm_, nullptr));
  }

 private:
  bool registered_;
  int rank_ = 0, nranks_ = 0;
  tuttiComm_t comm_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const tutti::bench::Options options = tutti::bench::parse_options(argc, argv);
  Tutti library(options);
  tutti::bench::run_all(library, options);
  return 0;
}
