// Address: what a rank tells the others, so that they can find its inbox and its doorbell.
#pragma once

#include <string>
#include <vector>

#include "transports/shm/layout.h"

namespace tutti::shm {

struct Address {
  std::string host;      // host_identity()
  uint32_t user = 0;     // effective user id
  bool dumpable = true;  // others of this user may look into /proc/PID
  bool barriers = false;  // process_barrier_works()
  int32_t pid = 0;
  uint64_t start_time = 0;  // tells the process from a later one with the same pid
  int32_t memfd = -1;       // its number in the owner
  Token token{};            // random; names the doorbell and marks the inbox
  Geometry geometry;
};

std::vector<std::byte> encode(const Address& address);
// False when the bytes are not an address of this version.
bool decode(std::span<const std::byte> bytes, Address& address);

}  // namespace tutti::shm
