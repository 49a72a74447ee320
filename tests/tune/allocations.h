// Counts what operator new is asked for.
#pragma once

#include <cstdint>

namespace tutti {

// By the calling thread, so far.
uint64_t allocations();

}  // namespace tutti
