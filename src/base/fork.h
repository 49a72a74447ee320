// Whether this process is a forked copy of another.
#pragma once

#include <cstdint>

namespace tutti {

// Grows with every fork on the way to this process since the first call. What was made under another number belongs to
// the parent: its threads are not here, and its sockets and memory are shared with it. No system call.
uint64_t fork_generation();

}  // namespace tutti
