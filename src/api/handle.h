// What hides behind the C handles, and how calls come in: checked, with the failure's sentence kept for
// tuttiGetLastError, and no exception going out.
#pragma once

#include "base/fork.h"
#include "base/no_throw.h"
#include "comm/communicator.h"
#include "comm/group.h"
#include "comm/stream.h"
#include "tutti/tutti.h"

// A destroyed handle has no mark; see retire().
struct tuttiComm {
  static constexpr uint64_t kMark = 0x7475747469636f6dULL;  // "tutticom"
  uint64_t mark = kMark;
  std::unique_ptr<tutti::Communicator> impl;
  uint64_t made_in = tutti::fork_generation();
};
struct tuttiStream {
  static constexpr uint64_t kMark = 0x7475747469737472ULL;  // "tuttistr"
  uint64_t mark = kMark;
  std::unique_ptr<tutti::Stream> impl;
  uint64_t made_in = tutti::fork_generation();
};

namespace tutti {

// The sentence of the thread's last failure.
const char* last_error_text();
void set_last_error(const Status& status);

Status check_comm(tuttiComm_t comm);
Status check_stream(tuttiStream_t stream);  // null is fine
// Frees what is behind a handle. The few bytes of the handle itself are kept until a thousand others have been retired, so
// that a use of a destroyed handle is an error, not a use of freed memory.
void retire(tuttiComm_t comm);
void retire(tuttiStream_t stream);
inline Stream* stream_of(tuttiStream_t stream) { return stream ? stream->impl.get() : nullptr; }

// Runs the body of an API function.
template <class Body>
tuttiResult_t api_call(Body&& body) noexcept {
  const Status status = without_exceptions(std::forward<Body>(body));
  if (!status.ok()) set_last_error(status);
  return status.code();
}

// The same for a call that a group defers.
template <class Body>
tuttiResult_t operation_call(Body&& body) noexcept {
  return api_call([&] { return accept(body()); });
}

}  // namespace tutti
