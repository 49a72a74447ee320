#include "transports/tcp/wire.h"

#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tutti::tcp {
namespace {

// Structs travel as they lie in memory; every machine that Tutti runs on is little-endian.
static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kAddressMagic = 0x41545554;  // "TUTA"
// By Hello::Kind: "TUTH", "TUTR", "TUTM".
constexpr std::array<uint32_t, 3> kHelloMagics = {0x48545554, 0x52545554, 0x4d545554};

struct AddressWire {
  uint32_t magic = kAddressMagic;
  uint16_t version = kWireVersion;
  uint16_t family = 4;             // 4 or 6
  std::array<std::byte, 16> ip{};  // network order, the first 4 bytes for IPv4
  uint64_t host = 0;
  Cookie cookie{};
  uint16_t port = 0;   // network order
  uint16_t rails = 0;  // so many RailWires follow
  std::array<std::byte, 4> zero{};
};
static_assert(sizeof(AddressWire) == 56);

struct RailWire {
  std::array<std::byte, 16> ip{};
  uint16_t port = 0;  // network order, as above
  uint8_t family = 4, prefix_bits = 0;
};
static_assert(sizeof(RailWire) == 20);

template <class Wire>
void store_socket(const sockaddr_storage& socket, Wire& wire) {
  if (socket.ss_family == AF_INET6) {
    const auto& in6 = reinterpret_cast<const sockaddr_in6&>(socket);
    wire.family = 6;
    wire.port = in6.sin6_port;
    std::memcpy(wire.ip.data(), &in6.sin6_addr, sizeof in6.sin6_addr);
  } else {
    const auto& in4 = reinterpret_cast<const sockaddr_in&>(socket);
    wire.family = 4;
    wire.port = in4.sin_port;
    std::memcpy(wire.ip.data(), &in4.sin_addr, sizeof in4.sin_addr);
  }
}

template <class Wire>
sockaddr_storage load_socket(const Wire& wire) {
  sockaddr_storage socket{};
  if (wire.family == 6) {
    auto& in6 = reinterpret_cast<sockaddr_in6&>(socket);
    in6.sin6_family = AF_INET6;
    in6.sin6_port = wire.port;
    std::memcpy(&in6.sin6_addr, wire.ip.data(), sizeof in6.sin6_addr);
  } else {
    auto& in4 = reinterpret_cast<sockaddr_in&>(socket);
    in4.sin_family = AF_INET;
    in4.sin_port = wire.port;
    std::memcpy(&in4.sin_addr, wire.ip.data(), sizeof in4.sin_addr);
  }
  return socket;
}

struct HelloWire {
  uint32_t magic = 0;
  uint32_t source = 0, destination = 0;
  uint16_t version = kWireVersion, channel = 0;
  uint16_t stripe = 0, stripes = 0;
};
static_assert(sizeof(HelloWire) + kMacBytes == kHelloBytes);

std::array<std::byte, kMacBytes> proof_of(const HelloWire& wire, std::span<const std::byte> key, const Cookie& cookie) {
  std::array<std::byte, sizeof(HelloWire) + kCookieBytes> message;
  std::memcpy(message.data(), &wire, sizeof wire);
  std::memcpy(message.data() + sizeof wire, cookie.data(), cookie.size());
  return mac_of(key, message);
}

}  // namespace

std::array<std::byte, kMacBytes> mac_of(std::span<const std::byte> key, std::span<const std::byte> message) {
  std::array<std::byte, kMacBytes> mac{};
  unsigned int bytes = kMacBytes;
  ::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(message.data()),
         message.size(), reinterpret_cast<unsigned char*>(mac.data()), &bytes);
  return mac;
}

std::vector<std::byte> encode_address(const Address& address) {
  AddressWire wire;
  wire.host = address.host;
  wire.cookie = address.cookie;
  store_socket(address.socket, wire);
  wire.rails = static_cast<uint16_t>(std::min(address.rails.size(), kMaxRails));
  std::vector<std::byte> bytes(sizeof wire + wire.rails * sizeof(RailWire));
  std::memcpy(bytes.data(), &wire, sizeof wire);
  for (size_t i = 0; i < wire.rails; ++i) {
    RailWire rail;
    rail.prefix_bits = address.rails[i].prefix_bits;
    store_socket(address.rails[i].socket, rail);
    std::memcpy(bytes.data() + sizeof wire + i * sizeof rail, &rail, sizeof rail);
  }
  return bytes;
}

Result<Address> decode_address(std::span<const std::byte> bytes) {
  AddressWire wire;
  if (bytes.size() < 6) return invalid_usage("a tcp address of {} bytes is too short to be one", bytes.size());
  std::memcpy(static_cast<void*>(&wire), bytes.data(), std::min(bytes.size(), sizeof wire));
  if (wire.magic != kAddressMagic) return invalid_usage("{} bytes that are no tcp address", bytes.size());
  if (wire.version != kWireVersion) {
    return invalid_usage(
        "its tcp transport speaks version {} of the wire format, this rank's version {}; all ranks need "
        "the same release of Tutti",
        wire.version, kWireVersion);
  }
  const auto is_family = [](int family) { return family == 4 || family == 6; };
  if (bytes.size() != sizeof wire + wire.rails * sizeof(RailWire) || wire.rails > kMaxRails ||
      !is_family(wire.family)) {
    return invalid_usage("a tcp address of {} bytes, {} rails and family {} is damaged", bytes.size(), wire.rails,
                         wire.family);
  }
  Address address{.socket = load_socket(wire), .host = wire.host, .cookie = wire.cookie};
  for (size_t i = 0; i < wire.rails; ++i) {
    RailWire rail;
    std::memcpy(&rail, bytes.data() + sizeof wire + i * sizeof rail, sizeof rail);
    if (!is_family(rail.family))
      return invalid_usage("a tcp address whose rail {} is of family {} is damaged", i, rail.family);
    address.rails.push_back({load_socket(rail), rail.prefix_bits});
  }
  return address;
}

HelloBytes encode_hello(const Hello& hello, std::span<const std::byte> key, const Cookie& cookie) {
  const HelloWire wire{.magic = kHelloMagics[static_cast<size_t>(hello.kind)],
                       .source = hello.source,
                       .destination = hello.destination,
                       .channel = hello.channel,
                       .stripe = hello.stripe,
                       .stripes = hello.stripes};
  HelloBytes bytes;
  const auto proof = proof_of(wire, key, cookie);
  std::memcpy(bytes.data(), &wire, sizeof wire);
  std::memcpy(bytes.data() + sizeof wire, proof.data(), proof.size());
  return bytes;
}

std::optional<Hello> decode_hello(const HelloBytes& bytes, std::span<const std::byte> key, const Cookie& cookie) {
  HelloWire wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  const auto proof = proof_of(wire, key, cookie);
  const bool genuine = CRYPTO_memcmp(bytes.data() + sizeof wire, proof.data(), proof.size()) == 0;
  const auto kind = std::find(kHelloMagics.begin(), kHelloMagics.end(), wire.magic) - kHelloMagics.begin();
  if (!genuine || kind == std::ssize(kHelloMagics) || wire.version != kWireVersion) return std::nullopt;
  if (wire.stripes == 0 || wire.stripes > kMaxStripes || wire.stripe >= wire.stripes) return std::nullopt;
  return Hello{Rank{wire.source}, Rank{wire.destination}, ChannelId{wire.channel},
               wire.stripe,       wire.stripes,           static_cast<Hello::Kind>(kind)};
}

PartRange part_range(size_t message_bytes, uint8_t part, uint8_t parts) {
  constexpr size_t kLine = 64;
  const size_t each = (message_bytes / parts + kLine) / kLine * kLine;
  const size_t offset = std::min(message_bytes, each * part);
  const size_t end = part + 1 == parts ? message_bytes : std::min(message_bytes, offset + each);
  return {offset, end - offset};
}

}  // namespace tutti::tcp
