// The bytes of the tcp transport: addresses, hellos and frame headers. Little-endian. No I/O.
//
//   address  what the bootstrap carries: where a rank listens and its listener's cookie
//   hello    the first bytes in either direction of a connection: who speaks to whom on which stripe, and the proof
//   frame    header and payload: one message, or one stripe's part of it; or the word that the sender goes on elsewhere
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/strong_int.h"
#include "transports/tcp/rails.h"

namespace tutti::tcp {

constexpr uint16_t kWireVersion = 3;
constexpr size_t kCookieBytes = 16;
constexpr size_t kMacBytes = 32;
constexpr uint16_t kMaxStripes = 64;

using Cookie = std::array<std::byte, kCookieBytes>;

// HMAC-SHA256.
std::array<std::byte, kMacBytes> mac_of(std::span<const std::byte> key, std::span<const std::byte> message);

struct Address {
  sockaddr_storage socket{};  // IPv4 or IPv6, without a scope: that is the reader's business
  uint64_t host = 0;          // equal for ranks of one host
  std::vector<Rail> rails;    // all that it listens at, where there are several; kMaxRails at most
  Cookie cookie{};            // random, fresh for every listener: a recorded hello is of no use elsewhere
};
std::vector<std::byte> encode_address(const Address& address);
// tuttiInvalidUsage when the bytes are of another version or are no address at all.
Result<Address> decode_address(std::span<const std::byte> bytes);

// A call begins what the rank that connected sends. An answer begins what the other sends back on that connection, once
// it has something to send; if it had made a connection of its own before, its frames on that one come first.
struct Hello {
  enum class Kind : uint8_t { call, answer, answer_after_move };
  Rank source, destination;
  ChannelId channel;
  uint16_t stripe = 0, stripes = 1;
  Kind kind = Kind::call;
  bool operator==(const Hello&) const = default;
};
constexpr size_t kHelloBytes = 20 + kMacBytes;
using HelloBytes = std::array<std::byte, kHelloBytes>;
// `cookie`: of the listener that the connection was made to, whoever speaks.
HelloBytes encode_hello(const Hello& hello, std::span<const std::byte> key, const Cookie& cookie);
// Nothing unless the proof is right. Takes the same time wherever it goes wrong.
std::optional<Hello> decode_hello(const HelloBytes& bytes, std::span<const std::byte> key, const Cookie& cookie);

// Before every part of a message. Sent as it lies in memory.
//
// A cache line long for the sake of what follows. The kernel copies header and payload one behind the other into its
// pages; behind a header of 24 bytes every line of the payload straddles two of the page's, and both copies, the
// sender's and the receiver's, take half as long again: 1 MiB both ways at once took 1.0 ms so and takes 0.65 ms.
struct FrameHeader {
  uint64_t message_bytes = 0;  // of the whole message
  uint64_t tag = 0;
  uint32_t sequence = 0;
  uint16_t magic = kFrameMagic;
  uint8_t part = 0, parts = 1;
  std::array<std::byte, 40> zero{};
  static constexpr uint16_t kFrameMagic = 0x7454;
  static constexpr uint16_t kMoveMagic = 0x6d54;  // no message: the sender's next frame is on the other connection
  bool operator==(const FrameHeader&) const = default;
};
static_assert(sizeof(FrameHeader) == 64);

// The bytes of a message that its part number `part` of `parts` carries. Parts are equal up to rounding to 64 bytes.
struct PartRange {
  size_t offset, bytes;
};
PartRange part_range(size_t message_bytes, uint8_t part, uint8_t parts);

}  // namespace tutti::tcp
