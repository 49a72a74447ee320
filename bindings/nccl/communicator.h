// What an ncclComm_t points to, and how calls of NCCL become calls of Tutti.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "nccl_abi.h"
#include "tutti/tutti.h"

// One rank of a communicator. Made by the Init, Split, Shrink and Grow calls; freed by Destroy and Abort.
struct ncclComm {
  tuttiComm_t comm = nullptr;  // written by the call that makes it, or by the group's end
  bool blocking = true;
  // Of a non-blocking communicator: the call that a thread of ours carries out. One at a time.
  std::thread worker;
  // Release by the worker when it is done, acquire by who polls: what the worker wrote to `comm` is seen.
  std::atomic<ncclResult_t> state{ncclSuccess};
};

namespace tutti_nccl {

// The calling thread's last message of this library's own, behind ncclGetLastError; Tutti's counts where it is empty.
void explain(std::string message);
const std::string& explanation();

// A failure of this library itself: notes why and returns `result`.
ncclResult_t refuse(ncclResult_t result, std::string why);

// Reads NCCL_ variables once and sets the TUTTI_ ones that they stand for, where those are not set. Before the first call.
void adopt_environment();

// The communicator behind a handle, for a call that needs it made. Null after refuse(): `result` says why.
tuttiComm_t ready(ncclComm_t comm, ncclResult_t& result);

// What a config asks for. Errors: ncclInvalidArgument for another magic or a size that is none.
struct Settings {
  bool blocking = true;
  std::string name;
};
ncclResult_t read_config(const ncclConfig_t* config, Settings& settings);

// Makes *out by `make`, which gets where the tuttiComm_t goes: now, or in a thread of its own.
ncclResult_t make_communicator(ncclComm_t* out, const ncclConfig_t* config,
                               std::function<tuttiResult_t(tuttiComm_t*, const tuttiConfig_t*)> make);

}  // namespace tutti_nccl
