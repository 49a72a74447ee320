#include "api/handle.h"

namespace tutti {
namespace {

thread_local std::string last_error = "no error";

}  // namespace

const char* last_error_text() { return last_error.c_str(); }

void set_last_error(const Status& status) {
  try {
    last_error = status.message();
  } catch (const std::bad_alloc&) {
    last_error.clear();
  }
}

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
