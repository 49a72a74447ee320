// gloo over TCP on the loopback interface in the loop of loop.h: AllReduce by ring, or by halving and doubling. Its
// ranks come from `tutti run` (RANK, WORLD_SIZE) and meet in files under --store.
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "loop.h"

namespace {

using tutti::bench::Call;

int number_from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) tutti::bench::fail("RANK and WORLD_SIZE are not set: start it by `tutti run`");
  return std::atoi(text);
}

class Gloo {
 public:
  explicit Gloo(const tutti::bench::Options& options)
      : halving_doubling_(options.algorithm == "halving_doubling"),
        rank_(number_from_environment("RANK")),
        nranks_(number_from_environment("WORLD_SIZE")) {
    // Not pinned: gloo receives in a thread of its own, which a pinned rank would hold up.
    gloo::transport::tcp::attr attributes;
    attributes.iface = "lo";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank_, nranks_);
    gloo::rendezvous::FileStore store(options.store);
    context->connectFullMesh(store, device);
    context_ = context;
  }
  int rank() const { return rank_; }
  int nranks() const { return nranks_; }
  void* allocate(size_t bytes) { return tutti::bench::allocate_pages(bytes); }

  // Halving and doubling exists in place only, as an object that is made once: it gets a copy of the input, whose sums
  // grow from call to call.
  void prepare(const Call& call) {
    if (call.collective != tutti::bench::Collective::all_reduce) tutti::bench::fail("gloo: all_reduce only");
    if (!halving_doubling_) return;
    std::memcpy(call.recv, call.send, call.count * sizeof(float));
    prepared_ = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context_, std::vector<float*>{call.recv},
                                                                        static_cast<int>(call.count));
  }
  void run(const Call& call) {
    if (halving_doubling_) return prepared_->run();
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setInput(call.send, call.count);
    options.setOutput(call.recv, call.count);
    options.setReduceFunction([](void* to, const void* a, const void* b, size_t n) { gloo::sum<float>(to, a, b, n); });
    gloo::allreduce(options);
  }
  const char* algorithm(const Call&) { return halving_doubling_ ? "halving_doubling" : "ring"; }
  void barrier() {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  void maximum(double* values, size_t n) {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values, n);
    options.setReduceFunction([](void* to, const void* a, const void* b, size_t n) { gloo::max<double>(to, a, b, n); });
    gloo::allreduce(options);
  }

 private:
  bool halving_doubling_;
  int rank_, nranks_;
  std::shared_ptr<gloo::Context> context_;
  std::unique_ptr<gloo::AllreduceHalvingDoubling<float>> prepared_;
};

}  // namespace

int main(int argc, char** argv) {
  const tutti::bench::Options options = tutti::bench::parse_options(argc, argv);
  Gloo gloo(options);
  tutti::bench::run_all(gloo, options);
  return 0;
}
