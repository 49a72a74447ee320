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

Status check_comm(tuttiComm_t comm) {
  if (!comm) return invalid_argument("the communicator is NULL");
  if (comm->mark != tuttiComm::kMark || !comm->impl)
    return invalid_argument("the communicator is no handle of Tutti, or was destroyed");
  return {};
}

Status check_stream(tuttiStream_t stream) {
  if (stream && (stream->mark != tuttiStream::kMark || !stream->impl))
    return invalid_argument("the stream is no handle of Tutti, or was destroyed; NULL runs in the calling thread");
  return {};
}

}  // namespace tutti
