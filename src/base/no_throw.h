// without_exceptions: the edge at which an exception (in practice: out of memory) becomes a Status. For entry points of the
// library and of its threads, where it would otherwise end the process.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "base/status.h"

namespace tutti {

template <class Body>
Status without_exceptions(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return Status(tuttiSystemError, "out of memory");
  } catch (const std::exception& e) {
    return Status(tuttiInternalError, e.what());
  }
}

}  // namespace tutti
