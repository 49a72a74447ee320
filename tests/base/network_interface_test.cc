// Choice of an interface among made-up ones, text forms of addresses, and listening in a range of ports.
#include "base/network_interface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

NetworkInterface interface_named(const char* name, const char* address) {
  const Result<sockaddr_storage> parsed = parse_address(address, 0);
  EXPECT_TRUE(parsed.ok()) << address;
  return {name, parsed.value(), std::string_view(name).starts_with("lo")};
}

const std::vector<NetworkInterface>& some_interfaces() {
  static const std::vector<NetworkInterface> list = {
      interface_named("lo", "127.0.0.1"),    interface_named("docker0", "172.17.0.1"),
      interface_named("eth0", "fe80::1"),    interface_named("eth0", "2001:db8::1"),
      interface_named("eth0", "192.0.2.1"),  interface_named("eth1", "198.51.100.1"),
      interface_named("ib0", "203.0.113.1"), interface_named("lo", "::1"),
  };
  return list;
}

// The address chosen, or the refusal.
std::string chosen(const std::vector<std::string>& entries,
                   const std::vector<NetworkInterface>& interfaces = some_interfaces()) {
  const Result<Config> config = config_from_entries(entries);
  EXPECT_TRUE(config.ok());
  const Result<NetworkInterface> choice = choose_interface_among(interfaces, config.value());
  if (choice.ok()) return address_text(choice.value().address);
  EXPECT_EQ(choice.status().code(), tuttiInvalidUsage);
  return std::string(choice.status().message());
}

TEST(ChooseInterface, PrefersInfiniBandThenOrdinaryThenBridgesThenLoopback) {
  EXPECT_EQ(chosen({}), "203.0.113.1");
  EXPECT_EQ(chosen({"TUTTI_SOCKET_IFNAME=^ib"}), "192.0.2.1");
  EXPECT_EQ(chosen({"TUTTI_SOCKET_IFNAME=^ib,eth"}), "172.17.0.1");
  EXPECT_EQ(chosen({"TUTTI_SOCKET_IFNAME=^ib,eth,docker"}), "127.0.0.1");
}

TEST(ChooseInterface, HonoursFamilyAndTheOrderOfNames) {
  EXPECT_EQ(chosen({"TUTTI_SOCKET_FAMILY=ipv6"}), "2001:db8::1");
  EXPECT_EQ(chosen({"TUTTI_SOCKET_FAMILY=ipv6", "TUTTI_SOCKET_IFNAME=lo"}), "::1");
  EXPECT_EQ(chosen({"TUTTI_SOCKET_IFNAME=eth1,ib"}), "198.51.100.1");
  EXPECT_EQ(chosen({"TUTTI_SOCKET_IFNAME==lo,ib0"}), "127.0.0.1");
}

TEST(ChooseInterface, NothingAllowedIsAnErrorThatListsWhatExists) {
  EXPECT_THAT(
      chosen({"TUTTI_SOCKET_IFNAME=wlan"}),
      AllOf(HasSubstr("TUTTI_SOCKET_IFNAME=wlan"), HasSubstr("eth1 (198.51.100.1)"), HasSubstr("lo (127.0.0.1)")));
  EXPECT_THAT(chosen({"TUTTI_SOCKET_IFNAME==eth", "TUTTI_SOCKET_FAMILY=ipv4"}),
              HasSubstr("TUTTI_SOCKET_IFNAME==eth and TUTTI_SOCKET_FAMILY=ipv4"));
  EXPECT_THAT(chosen({}, {}), HasSubstr("there are: none"));
}

TEST(ChooseInterface, FindsOneHere) {
  const Result<NetworkInterface> choice = choose_interface(Config());
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  EXPECT_FALSE(choice.value().name.empty());
}

TEST(AddressText, ReadsBack) {
  for (const char* text : {"127.0.0.1", "192.0.2.255", "::1", "2001:db8::5", "fe80::1%lo"}) {
    const Result<sockaddr_storage> address = parse_address(text, 77);
    ASSERT_TRUE(address.ok()) << address.status().message();
    EXPECT_EQ(address_text(address.value()), text);
    EXPECT_EQ(port_of(address.value()), 77);
  }
  EXPECT_EQ(endpoint_text(parse_address("::1", 80).value()), "[::1]:80");
  EXPECT_EQ(endpoint_text(parse_address("127.0.0.1", 80).value()), "127.0.0.1:80");
}

TEST(AddressText, RefusesNamesAndUnknownScopes) {
  for (const char* text : {"", "localhost", "1.2.3", "1.2.3.4.5", "::1::", "[::1]", "127.0.0.1%lo"})
    EXPECT_EQ(parse_address(text, 1).status().code(), tuttiInvalidArgument) << text;
  EXPECT_THAT(std::string(parse_address("fe80::1%nosuch0", 1).status().message()), HasSubstr("'nosuch0'"));
  EXPECT_THAT(std::string(parse_address("fe80::1%", 1).status().message()), HasSubstr("does not exist"));
}

TEST(ListenTcp, TakesTheNextFreePortAndSaysWhenThereIsNone) {
  const sockaddr_storage loopback = parse_address("127.0.0.1", 0).value();
  const Result<Listener> any = listen_tcp(loopback, {});
  ASSERT_TRUE(any.ok()) << any.status().message();
  const uint16_t taken = port_of(any.value().address);
  ASSERT_NE(taken, 0);

  const Result<Listener> none = listen_tcp(loopback, {taken, taken});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), tuttiSystemError);
  EXPECT_THAT(std::string(none.status().message()),
              AllOf(HasSubstr(std::to_string(taken)), HasSubstr("TUTTI_PORT_RANGE")));

  const uint16_t last = static_cast<uint16_t>(std::min(taken + 50, 65535));
  const Result<Listener> next = listen_tcp(loopback, {taken, last});
  ASSERT_TRUE(next.ok()) << next.status().message();
  EXPECT_GT(port_of(next.value().address), taken);
}

}  // namespace
}  // namespace tutti
