// Launcher: rank, size and meeting point from the environment of whatever started this process.
//
// Read in this order, first complete one wins; a partly set one is an error that names what is missing:
//   RANK WORLD_SIZE MASTER_ADDR MASTER_PORT [LOCAL_RANK]     torchrun, `tutti run`
//   OMPI_COMM_WORLD_RANK/_SIZE/_LOCAL_RANK/_LOCAL_SIZE       Open MPI
//   SLURM_PROCID SLURM_NTASKS SLURM_LOCALID SLURM_JOB_ID     srun
//   PMI_RANK PMI_SIZE [MPI_LOCALRANKID]                      MPICH's hydra and other PMI launchers
#pragma once

#include <functional>
#include <string>

#include "bootstrap/rendezvous.h"

namespace tutti {

struct Launch {
  std::string launcher;   // "torchrun", "Open MPI", "Slurm", "PMI"
  Rank rank;
  Rank nranks{1};
  int local_rank = -1;    // -1: not told
  MeetingPoint point;     // rank 0 makes the hub there
};

// `get` is getenv or a test's stand-in. Errors: tuttiInvalidUsage naming variables and values.
Result<Launch> launch_from_environment(const Config& config, const std::function<const char*(const char*)>& get);

}  // namespace tutti
