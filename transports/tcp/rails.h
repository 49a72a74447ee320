// Rails: the networks that two hosts share. A host with several network cards is reached on several of them, and what
// travels between two such hosts is spread over all that work.
//
// Nothing here is about messages: addresses, masks, and whether a connection can be made.
#pragma once

#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/network_interface.h"

namespace tutti::tcp {

constexpr size_t kMaxRails = 8;

// One address that a rank listens at, and how much of it names the network.
struct Rail {
  sockaddr_storage socket{};
  uint8_t prefix_bits = 0;
};

// The number of a network: family, length, and the bits of the address that count.
struct Network {
  int family = 0;
  uint8_t bits = 0;
  std::array<uint8_t, 16> number{};
  auto operator<=>(const Network&) const = default;
};
Network network_of(const Rail& rail);

// Of `theirs`, those on a network that is also among `own`: one for each network, in the order of the networks'
// numbers, so that both ends list the same networks in the same order. Link-local addresses are of no known network.
std::vector<Rail> shared_rails(std::span<const Rail> own, std::span<const Rail> theirs);

// To which of them a connection can be made: all are tried at once, and the answer is given when the last has answered,
// or `patience` after the first that did. Blocks for at most three times `patience`.
std::vector<bool> reachable(std::span<const Rail> rails, Nanoseconds patience);

}  // namespace tutti::tcp
