// Launcher: rank, size and meeting point from the environment of whatever started this process.
//
// Read in this order, first complete one wins; when none is complete, a partly set one is an error that names what is
// missing:
//   RANK WORLD_SIZE MASTER_ADDR MASTER_PORT [LOCAL_RANK]     torchrun, `tutti run`
//   OMPI_COMM_WORLD_RANK/_SIZE/_LOCAL_RANK/_LOCAL_SIZE       Open MPI
//   SLURM_PROCID SLURM_NTASKS SLURM_LOCALID SLURM_JOB_ID     srun (SLURM_STEP_NUM_TASKS before SLURM_NTASKS)
//   PMI_RANK PMI_SIZE [MPI_LOCALRANKID MPI_LOCALNRANKS]      MPICH's hydra and other PMI launchers; hydra, which sets
//                                                            MPI_LOCALNRANKS, comes before the Slurm job it runs in
//
// Another complete set that gives a different rank or size is an error that names both, since one of them is left over,
// unless it is plainly the job around the launcher whose set is taken:
//   * RANK together with LOCAL_WORLD_SIZE or TORCHELASTIC_RUN_ID, as torchrun and `tutti run` set them, wins over all;
//   * a bare RANK, set by hand, wins over a Slurm batch script's set (no SLURM_STEP_ID) and over a job of one process;
//   * Open MPI's and PMI's win over Slurm's, Open MPI's over the PMI variables of the Slurm step it was started in.
//
// The meeting point. MASTER_ADDR and MASTER_PORT serve with every launcher. Without MASTER_ADDR ranks of one host meet
// on loopback, Slurm's on the first host of the step, and several hosts are an error that says how to pass MASTER_ADDR.
// Without MASTER_PORT the port is derived from the job's identity, 20000-29999. The port may be taken, by torchrun's
// own store for example, so 16 ports are tried from there on (from the next one where TORCHELASTIC_USE_AGENT_STORE is
// True).
//
// The key. With TUTTI_SECRET_FILE it is made from the file's contents. Without, it is made from what all ranks know
// anyway (MASTER_ADDR, MASTER_PORT, the launcher's job id, TUTTI_JOB_ID): it keeps jobs apart, but it is an identity
// and not a secret. WORLD_SIZE is no part of it, so that ranks that disagree on it meet and are told so.
#pragma once

#include <functional>
#include <string>

#include "bootstrap/rendezvous.h"

namespace tutti {

struct Launch {
  std::string launcher;  // "torchrun", "Open MPI", "Slurm", "PMI"
  Rank rank;
  Rank nranks{1};
  int local_rank = -1;  // -1: not told
  MeetingPoint point;   // rank 0 makes the hub there
};

// `get` is getenv or a test's stand-in. Errors: tuttiInvalidUsage naming variables and values; tuttiSystemError when
// TUTTI_SECRET_FILE cannot be read.
Result<Launch> launch_from_environment(const Config& config, const std::function<const char*(const char*)>& get);
// From this process's environment.
Result<Launch> launch_from_environment(const Config& config);

// The first name of Slurm's list syntax: "node[07-09,12],gpu1" gives "node07". Empty when it cannot be read.
std::string first_slurm_host(std::string_view list);

}  // namespace tutti
