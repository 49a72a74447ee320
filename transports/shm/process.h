// Process: whether a process of this host still lives.
#pragma once

#include <cstdint>

namespace tutti::shm {

// The start time of the calling process in clock ticks since boot; 0 when /proc is not there.
uint64_t own_start_time();

// False when the process has ended (reaped or not) or its pid belongs to a later one. Reads /proc/PID/stat: about 5 us.
bool process_lives(int32_t pid, uint64_t start_time);

}  // namespace tutti::shm
