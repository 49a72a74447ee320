#include "api/handle.h"

#include <deque>
#include <mutex>

namespace tutti {
namespace {

thread_local std::string last_error = "no error";

constexpr size_t kRetired = 1000;

template <class Handle>
void retire_handle(Handle* handle) {
  struct Retired {
    std::mutex mutex;
    std::deque<std::unique_ptr<Handle>> handles;
  };
  static Retired* const retired = new Retired;  // used until the process ends
  std::unique_ptr<Handle> owned(handle);
  owned->mark = 0;
  owned->impl.reset();
  std::lock_guard lock(retired->mutex);
  retired->handles.push_back(std::move(owned));
  if (retired->handles.size() > kRetired) retired->handles.pop_front();
}

}  // namespace

const char* last_error_text() { return last_error.c_str(); }

void set_last_error(const Status& status) {
  try {
    last_error = status.message();
  } catch (const std::bad_alloc&) {
    last_error.clear();
  }
}

void retire(tuttiComm_t comm) { retire_handle(comm); }
void retire(tuttiStream_t stream) { retire_handle(stream); }

namespace {

// What is no pointer to a handle at all is not looked into.
template <class Handle>
bool is_handle(const Handle* handle) {
  constexpr uintptr_t kFirstPage = 4096;
  const auto address = reinterpret_cast<uintptr_t>(handle);
  return address >= kFirstPage && address % alignof(Handle) == 0 && handle->mark == Handle::kMark && handle->impl;
}

Status made_by_parent(const char* what) {
  return invalid_usage("the {} was made before this process was forked and stays its parent's; a forked child makes its "
                       "own, and need not end this one", what);
}

}  // namespace

Status check_comm(tuttiComm_t comm) {
  if (!comm) return invalid_argument("the communicator is NULL");
  if (!is_handle(comm)) return invalid_argument("the communicator is no handle of Tutti, or was destroyed");
  if (comm->made_in != fork_generation()) return made_by_parent("communicator");
  return {};
}

Status check_stream(tuttiStream_t stream) {
  if (!stream) return {};
  if (!is_handle(stream))
    return invalid_argument("the stream is no handle of Tutti, or was destroyed; NULL runs in the calling thread");
  if (stream->made_in != fork_generation()) return made_by_parent("stream");
  return {};
}

}  // namespace tutti
