// Any MPI in the loop of loop.h. mpirun binds the ranks.
#include <mpi.h>

#include "loop.h"

namespace {

using tutti::bench::Call;
using tutti::bench::Collective;

class Mpi {
 public:
  Mpi() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks_);
  }
  int rank() const { return rank_; }
  int nranks() const { return nranks_; }
  void* allocate(size_t bytes) { return tutti::bench::allocate_pages(bytes); }
  void prepare(const Call&) {}

  // MPI's default error handler ends the job.
  void run(const Call& call) {
    const int count = static_cast<int>(call.count);
    switch (call.collective) {
      case Collective::all_reduce:
        MPI_Allreduce(call.send, call.recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Collective::reduce_scatter:
        MPI_Reduce_scatter_block(call.send, call.recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Collective::all_gather:
        MPI_Allgather(call.send, count, MPI_FLOAT, call.recv, count, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case Collective::broadcast:
        MPI_Bcast(rank_ == 0 ? call.send : call.recv, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
    }
  }
  const char* algorithm(const Call&) { return ""; }
  void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
  void maximum(double* values, size_t n) {
    MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(n), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }

 private:
  int rank_ = 0, nranks_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Mpi mpi;
  tutti::bench::run_all(mpi, tutti::bench::parse_options(argc, argv));
  MPI_Finalize();
  return 0;
}
