// The bytes of addresses, hellos and frames.
#include "transports/tcp/wire.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/network_interface.h"
#include "tests/tcp/ranks.h"

namespace tutti::tcp {
namespace {

TEST(TcpWire, AddressesComeBack) {
  for (const char* text : {"192.0.2.1", "2001:db8::1"}) {
    Address address{.socket = *parse_address(text, 4711), .host = 0x1122334455667788ULL};
    address.cookie.fill(std::byte{9});
    const auto bytes = encode_address(address);
    EXPECT_LE(bytes.size(), Transport::kMaxAddressBytes);
    const auto back = decode_address(bytes);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(endpoint_text(back->socket), endpoint_text(address.socket));
    EXPECT_EQ(back->host, address.host);
    EXPECT_EQ(back->cookie, address.cookie);
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
      EXPECT_FALSE(decode_address(std::span(bytes).first(cut)).ok()) << cut;
    }
    auto longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(decode_address(longer).ok());
  }
}

// RFC 4231, test case 2.
TEST(TcpWire, MacIsHmacSha256) {
  const std::string key = "Jefe", message = "what do ya want for nothing?";
  const auto mac = mac_of(std::as_bytes(std::span(key)), std::as_bytes(std::span(message)));
  constexpr uint8_t kExpected[] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24,
                                   0x26, 0x08, 0x95, 0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27,
                                   0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
  EXPECT_TRUE(std::ranges::equal(mac, std::as_bytes(std::span(kExpected))));
}

TEST(TcpWire, AHelloWithAnyBitChangedIsNone) {
  const auto key = test_key();
  Cookie cookie;
  cookie.fill(std::byte{3});
  const Hello hello{Rank{300}, Rank{2}, ChannelId{63}, 4, 5};
  const auto bytes = encode_hello(hello, key, cookie);
  ASSERT_EQ(decode_hello(bytes, key, cookie), hello);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto changed = bytes;
    changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(decode_hello(changed, key, cookie).has_value()) << bit;
  }
  Cookie other = cookie;
  other[15] = std::byte{4};
  EXPECT_FALSE(decode_hello(bytes, key, other).has_value());
  // A proof does not make sense of nonsense.
  for (const Hello& senseless : {Hello{.stripe = 0, .stripes = 0}, Hello{.stripe = 3, .stripes = 3},
                                 Hello{.stripe = 0, .stripes = kMaxStripes + 1}}) {
    EXPECT_FALSE(decode_hello(encode_hello(senseless, key, cookie), key, cookie).has_value());
  }
}

TEST(TcpWire, PartsCoverAMessageOnceAndEvenly) {
  for (const size_t bytes : {0, 1, 63, 64, 65, 1000, 4096, 99999}) {
    for (uint8_t parts = 1; parts <= kMaxStripes; ++parts) {
      size_t at = 0;
      for (uint8_t part = 0; part < parts; ++part) {
        const PartRange range = part_range(bytes, part, parts);
        EXPECT_EQ(range.offset, at);
        EXPECT_LE(range.bytes, bytes / parts + 64);
        at += range.bytes;
      }
      EXPECT_EQ(at, bytes);
    }
  }
}

}  // namespace
}  // namespace tutti::tcp
