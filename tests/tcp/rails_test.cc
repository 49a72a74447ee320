// Which networks two hosts share, and which of them answer.
#include "transports/tcp/rails.h"

#include <gtest/gtest.h>

#include "base/network_interface.h"

namespace tutti::tcp {
namespace {

Rail rail(const char* address, uint8_t prefix_bits) { return {parse_address(address, 4711).value(), prefix_bits}; }

std::vector<std::string> shared(const std::vector<Rail>& own, const std::vector<Rail>& theirs) {
  std::vector<std::string> addresses;
  for (const Rail& each : shared_rails(own, theirs)) addresses.push_back(address_text(each.socket));
  return addresses;
}

using Addresses = std::vector<std::string>;

TEST(Rails, AreTheNetworksThatBothHave) {
  const std::vector<Rail> a = {rail("10.0.1.1", 24), rail("10.0.2.1", 24), rail("192.0.2.1", 25)};
  const std::vector<Rail> b = {rail("10.0.2.9", 24), rail("10.0.1.9", 24), rail("192.0.2.200", 25)};
  // In the same order at both ends; 192.0.2.1 and .200 are on different halves.
  EXPECT_EQ(shared(a, b), (Addresses{"10.0.1.9", "10.0.2.9"}));
  EXPECT_EQ(shared(b, a), (Addresses{"10.0.1.1", "10.0.2.1"}));
  EXPECT_EQ(shared({rail("10.0.1.1", 24)}, {rail("10.0.1.9", 16)}), Addresses{});  // masks that differ
  EXPECT_EQ(shared(a, {}), Addresses{});
}

TEST(Rails, OneNetworkIsOneRailHoweverManyAddressesAreOnIt) {
  const std::vector<Rail> a = {rail("10.0.1.1", 24), rail("10.0.1.2", 24)};
  EXPECT_EQ(shared(a, {rail("10.0.1.9", 24), rail("10.0.1.8", 24)}), (Addresses{"10.0.1.9"}));
}

TEST(Rails, OfIpv6) {
  const std::vector<Rail> a = {rail("2001:db8:0:1::1", 64), rail("2001:db8:0:2::1", 64)};
  EXPECT_EQ(shared(a, {rail("2001:db8:0:2::9", 64)}), (Addresses{"2001:db8:0:2::9"}));
  // A link-local address is of any link, and a mask that is not known names no network.
  EXPECT_EQ(shared({rail("fe80::1%lo", 64)}, {rail("fe80::2%lo", 64)}), Addresses{});
  EXPECT_EQ(shared({rail("10.0.1.1", 0)}, {rail("10.0.1.9", 0)}), Addresses{});
}

TEST(Rails, AHostThatRefusesIsReached) {
  const Listener open = listen_tcp(parse_address("127.0.0.1", 0).value(), {}).value();
  uint16_t closed_port = 0;
  closed_port = port_of(listen_tcp(parse_address("127.0.0.1", 0).value(), {}).value().address);
  const std::vector<Rail> ends = {{open.address, 8}, {parse_address("127.0.0.1", closed_port).value(), 8}};
  EXPECT_EQ(reachable(ends, kSecond), (std::vector<bool>{true, true}));
  EXPECT_TRUE(reachable({}, kSecond).empty());
}

}  // namespace
}  // namespace tutti::tcp
