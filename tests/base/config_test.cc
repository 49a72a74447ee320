// The configuration table: what is accepted, what is refused, and what the refusal says.
#include "base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Result<Config> from(std::vector<std::string> entries) { return config_from_entries(entries); }

// The refusal of one entry.
std::string refusal(const std::string& entry) {
  const Result<Config> config = from({entry});
  if (config.ok()) return "accepted";
  EXPECT_EQ(config.status().code(), tuttiInvalidUsage) << entry;
  return std::string(config.status().message());
}

TEST(Config, DefaultsAreWhatTheTableSays) {
  const Result<Config> config = from({"PATH=/bin", "XTUTTI_ALGO=nonsense"});
  ASSERT_TRUE(config.ok());
  EXPECT_TRUE(config.value().set_variables.empty());
  for (const ConfigVariable& variable : config_variables())
    EXPECT_EQ(variable.show(config.value()), variable.default_value) << variable.name;
}

TEST(Config, EveryRowIsNamedTypedAndExplainedOnce) {
  std::set<std::string_view> names;
  for (const ConfigVariable& variable : config_variables()) {
    EXPECT_TRUE(variable.name.starts_with("TUTTI_"));
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    EXPECT_FALSE(variable.type.empty()) << variable.name;
    EXPECT_TRUE(variable.help.ends_with('.')) << variable.name;
  }
}

// Written by show, read by parse, the value stays the same.
TEST(Config, GoodValuesReadBackAsTheyAreShown) {
  const std::pair<const char*, std::vector<std::pair<const char*, const char*>>> cases[] = {
      {"TUTTI_ALGO",
       {{"ring", "ring"},
        {"^all_pairs", "^all_pairs"},
        {"ring,tree", "ring,tree"},
        {"allreduce:tree;broadcast:ring", "all_reduce:tree;broadcast:ring"},
        {"ring,tree;AllGather:^ring;all_to_all:all_pairs,x-y", "ring,tree;all_gather:^ring;all_to_all:all_pairs,x-y"}}},
      {"TUTTI_TRANSPORT",
       {{"tcp", "tcp"},
        {"shm,tcp", "shm,tcp"},
        {"^verbs", "^verbs"},
        {"^shm,tcp,p2p,verbs,ucx,sim", "^shm,tcp,p2p,verbs,ucx,sim"},
        {"self,shm,tcp,p2p,ucx,sim", "self,shm,tcp,p2p,ucx,sim"}}},
      {"TUTTI_PROTO", {{"simple", "simple"}, {"^ll", "^ll"}}},
      {"TUTTI_DEVICE", {{"host", "host"}, {"sim", "sim"}, {"sim:3", "sim:3"}, {"cuda:0", "cuda:0"}}},
      {"TUTTI_SIM_TOPO", {{"2xnvlink2", "2xnvlink2"}}},
      {"TUTTI_P2P_LEVEL", {{"PHB", "PHB"}, {"nvl", "NVL"}}},
      {"TUTTI_NET_LEVEL", {{"PXB", "PXB"}, {"pxn", "PXN"}}},
      {"TUTTI_TOPO_FILE", {{"/etc/%h.xml", "/etc/%h.xml"}}},
      {"TUTTI_LANES", {{"1", "1"}, {"16", "16"}}},
      {"TUTTI_TILE", {{"256", "256"}, {"64K", "64K"}, {"65536", "64K"}, {"1m", "1M"}, {"16M", "16M"}, {"320", "320"}}},
      {"TUTTI_TUNING_FILE", {{"/etc/tutti.json", "/etc/tutti.json"}}},
      {"TUTTI_SOCKET_IFNAME",
       {{"eth", "eth"}, {"=eth0,ib0", "=eth0,ib0"}, {"^docker,lo", "^docker,lo"}, {"^=lo", "^=lo"}}},
      {"TUTTI_SOCKET_FAMILY",
       {{"any", "any"}, {"ipv4", "ipv4"}, {"IPv6", "ipv6"}, {"AF_INET", "ipv4"}, {"af_inet6", "ipv6"}}},
      {"TUTTI_PORT_RANGE", {{"29500", "29500"}, {"1-65535", "1-65535"}, {"7-7", "7"}}},
      {"TUTTI_SOCKETS_PER_LINK", {{"1", "1"}, {"16", "16"}}},
      {"TUTTI_SOCKET_CONGESTION", {{"cubic", "cubic"}, {"bbr", "bbr"}}},
      {"TUTTI_TIMEOUT", {{"5", "5"}, {"0.25", "0.25"}, {"1000000", "1000000"}, {"0.000000001", "0.000000001"}}},
      {"TUTTI_DEBUG", {{"none", "NONE"}, {"Version", "VERSION"}, {"INFO", "INFO"}, {"trace", "TRACE"}}},
      {"TUTTI_DEBUG_SUBSYS", {{"INIT,net", "INIT,NET"}, {"^coll", "^COLL"}, {"ALL", "ALL"}}},
      {"TUTTI_DEBUG_FILE", {{"/tmp/log.%h.%p", "/tmp/log.%h.%p"}, {"100%%", "100%%"}}},
      {"TUTTI_TOPO_DUMP_FILE", {{"/tmp/%h.xml", "/tmp/%h.xml"}, {"/tmp/topo.json", "/tmp/topo.json"}}},
      {"TUTTI_SECRET_FILE", {{"/etc/key", "/etc/key"}}},
      {"TUTTI_JOB_ID", {{"a=b c", "a=b c"}}},
  };
  std::set<std::string_view> covered;
  for (const auto& [name, values] : cases) {
    covered.insert(name);
    const auto variables = config_variables();
    const auto row =
        std::find_if(variables.begin(), variables.end(), [n = name](const auto& v) { return v.name == n; });
    ASSERT_NE(row, variables.end()) << name;
    for (const auto& [written, shown] : values) {
      const Result<Config> config = from({std::string(name) + "=" + written});
      ASSERT_TRUE(config.ok()) << config.status().message();
      EXPECT_EQ(row->show(config.value()), shown);
      EXPECT_TRUE(config.value().is_set(name));
      const Result<Config> again = from({std::string(name) + "=" + shown});
      ASSERT_TRUE(again.ok()) << again.status().message();
      EXPECT_EQ(row->show(again.value()), shown);
    }
  }
  for (const ConfigVariable& variable : config_variables())
    EXPECT_TRUE(covered.contains(variable.name)) << variable.name << " has no case here";
}

TEST(Config, BadValuesAreRefusedWithWhatIsAllowed) {
  const std::pair<const char*, const char*> cases[] = {
      {"TUTTI_ALGO=,", "a name is missing"},
      {"TUTTI_ALGO=^", "a name is missing"},
      {"TUTTI_ALGO=ring;", "names no collective"},
      {"TUTTI_ALGO=ring;tree", "names no collective"},
      {"TUTTI_ALGO=allreduce:ring;tree", "names no collective"},
      {"TUTTI_ALGO=allreduce:", "allreduce: a name is missing"},
      {"TUTTI_ALGO=all_reduce:ring;AllReduce:tree", "given two lists"},
      {"TUTTI_ALGO=allredcue:ring", "did you mean 'all_reduce'?"},
      {"TUTTI_ALGO=ring tree", "'ring tree' is not a name"},
      {"TUTTI_ALGO=ring,ring", "listed twice"},
      {"TUTTI_TRANSPORT=tpc", "did you mean 'tcp'?"},
      {"TUTTI_TRANSPORT=TCP", "allowed are self, shm, tcp"},
      {"TUTTI_TRANSPORT=shm;tcp", "is unknown"},
      {"TUTTI_TRANSPORT=^self", "always there"},
      {"TUTTI_TRANSPORT=^self,shm,tcp,p2p,verbs,ucx,sim", "excludes all there is: self, shm, tcp"},
      {"TUTTI_PROTO=ll128", "allowed are simple"},
      {"TUTTI_PROTO=^simple,ll", "excludes all there is: simple"},
      {"TUTTI_DEVICE=gpu", "host"},
      {"TUTTI_LANES=0", "whole number from 1 to 16"},
      {"TUTTI_LANES=17", "whole number from 1 to 16"},
      {"TUTTI_LANES=-1", "whole number from 1 to 16"},
      {"TUTTI_LANES=4x", "whole number from 1 to 16"},
      {"TUTTI_LANES= 4", "whole number from 1 to 16"},
      {"TUTTI_LANES=99999999999999999999", "whole number from 1 to 16"},
      {"TUTTI_TILE=100", "from 256 to 16M bytes, a multiple of 64"},
      {"TUTTI_TILE=257", "multiple of 64"},
      {"TUTTI_TILE=17M", "from 256 to 16M"},
      {"TUTTI_TILE=64KB", "write it like"},
      {"TUTTI_SOCKET_IFNAME==", "beginning of an interface name"},
      {"TUTTI_SOCKET_IFNAME=eth0,,ib0", "beginning of an interface name"},
      {"TUTTI_SOCKET_IFNAME==^eth0", "beginning of an interface name"},
      {"TUTTI_SOCKET_IFNAME=averyveryverylongname", "beginning of an interface name"},
      {"TUTTI_SOCKET_FAMILY=ipv5", "allowed are any, ipv4, ipv6"},
      {"TUTTI_PORT_RANGE=0", "range of ports"},
      {"TUTTI_PORT_RANGE=10-9", "the lower one first"},
      {"TUTTI_PORT_RANGE=1-65536", "from 1 to 65535"},
      {"TUTTI_PORT_RANGE=1-2-3", "range of ports"},
      {"TUTTI_PORT_RANGE=-5", "range of ports"},
      {"TUTTI_SOCKETS_PER_LINK=0", "from 1 to 16"},
      {"TUTTI_TIMEOUT=0", "more than 0"},
      {"TUTTI_TIMEOUT=-1", "more than 0"},
      {"TUTTI_TIMEOUT=inf", "seconds like 300 or 0.5"},
      {"TUTTI_TIMEOUT=nan", "seconds like 300 or 0.5"},
      {"TUTTI_TIMEOUT=1e3", "seconds like 300 or 0.5"},
      {"TUTTI_TIMEOUT=30s", "seconds like 300 or 0.5"},
      {"TUTTI_TIMEOUT=1000001", "at most 1000000"},
      {"TUTTI_DEBUG=DEBUG", "allowed are NONE, VERSION, WARN, INFO, TRACE"},
      {"TUTTI_DEBUG=INFOO", "did you mean 'INFO'?"},
      {"TUTTI_DEBUG_SUBSYS=NETT", "did you mean 'NET'?"},
      {"TUTTI_DEBUG_SUBSYS=^all,init,bootstrap,net,shm,tune,coll,env", "excludes all there is: ALL, INIT"},
      {"TUTTI_DEBUG_FILE=/tmp/%d", "not 'd'"},
      {"TUTTI_DEBUG_FILE=/tmp/x%", "may be followed by h"},
      {"TUTTI_TOPO_DUMP_FILE=/tmp/%d", "not 'd'"},
  };
  for (const auto& [entry, fragment] : cases) EXPECT_THAT(refusal(entry), AllOf(HasSubstr(entry), HasSubstr(fragment)));
  EXPECT_THAT(refusal("TUTTI_JOB_ID=" + std::string(257, 'x')), HasSubstr("at most 256 bytes"));
}

TEST(Config, UnknownNamesAreRefusedWithTheNearest) {
  EXPECT_THAT(refusal("TUTTI_ALOG=ring"), HasSubstr("did you mean TUTTI_ALGO?"));
  EXPECT_THAT(refusal("TUTTI_ALGORITHM=ring"), HasSubstr("did you mean TUTTI_ALGO?"));
  EXPECT_THAT(refusal("TUTTI_SOCKET_IF=eth0"), HasSubstr("did you mean TUTTI_SOCKET_IFNAME?"));
  EXPECT_THAT(refusal("TUTTI_TIME_OUT=3"), HasSubstr("did you mean TUTTI_TIMEOUT?"));
  EXPECT_THAT(refusal("TUTTI_QUUX=1"), AllOf(Not(HasSubstr("did you mean")), HasSubstr("TUTTI_ALGO, TUTTI_TRANSPORT")));
  EXPECT_THAT(refusal("TUTTI_="), HasSubstr("there is no variable TUTTI_"));
  EXPECT_THAT(refusal("TUTTI_QUUX="), HasSubstr("there is no variable"))
      << "an empty value does not excuse a wrong name";
}

TEST(Config, AnEmptyValueCountsAsNotSetAndTheFirstOfTwoWins) {
  const Result<Config> config = from({"TUTTI_LANES=", "TUTTI_TIMEOUT=7", "TUTTI_TIMEOUT=8"});
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_FALSE(config.value().is_set("TUTTI_LANES"));
  EXPECT_EQ(config.value().timeout, 7 * kSecond);
  EXPECT_THAT(config.value().set_variables, ElementsAre("TUTTI_TIMEOUT"));
}

TEST(Config, AlgorithmListsFallBackToTheGeneralOne) {
  const Result<Config> config = from({"TUTTI_ALGO=ring;broadcast:^tree"});
  ASSERT_TRUE(config.ok());
  const AlgorithmFilter& filter = config.value().algo;
  EXPECT_TRUE(filter.for_collective(Collective::all_reduce).allows("ring"));
  EXPECT_FALSE(filter.for_collective(Collective::all_reduce).allows("tree"));
  EXPECT_TRUE(filter.for_collective(Collective::broadcast).allows("ring"));
  EXPECT_FALSE(filter.for_collective(Collective::broadcast).allows("tree"));
  EXPECT_TRUE(Config().algo.for_collective(Collective::reduce).allows("anything"));
}

TEST(Config, InterfaceFilterMatchesBeginningsOrWholeNames) {
  auto allows = [](const char* value, const char* name) {
    const Result<Config> config = from({std::string("TUTTI_SOCKET_IFNAME=") + value});
    EXPECT_TRUE(config.ok());
    return config.value().socket_ifname.allows(name);
  };
  EXPECT_TRUE(allows("eth", "eth0"));
  EXPECT_FALSE(allows("eth", "veth0"));
  EXPECT_FALSE(allows("=eth", "eth0"));
  EXPECT_TRUE(allows("=eth0,ib0", "ib0"));
  EXPECT_FALSE(allows("^docker,lo", "lo"));
  EXPECT_TRUE(allows("^docker,lo", "eth0"));
  EXPECT_TRUE(allows("^=lo", "lo2"));
  EXPECT_TRUE(Config().socket_ifname.allows("anything"));
}

TEST(Config, AgreementCoversWhatChangesTheTraffic) {
  auto agreement = [](std::vector<std::string> entries) { return config_from_entries(entries).value().agreement(); };
  const std::vector<std::string> plain = agreement({});
  std::set<std::vector<std::string>> different = {plain};
  for (const char* entry : {"TUTTI_ALGO=ring", "TUTTI_TRANSPORT=tcp", "TUTTI_PROTO=simple", "TUTTI_LANES=2",
                            "TUTTI_TILE=64K", "TUTTI_SOCKETS_PER_LINK=2"}) {
    const std::vector<std::string> settings = agreement({entry});
    EXPECT_TRUE(different.insert(settings).second) << entry;
    EXPECT_NE(std::ranges::find(settings, entry), settings.end()) << entry;
  }
  EXPECT_EQ(agreement({"TUTTI_DEBUG=INFO", "TUTTI_TIMEOUT=3", "TUTTI_SOCKET_IFNAME=lo", "TUTTI_DEBUG_FILE=/x"}), plain);
  EXPECT_EQ(agreement({"TUTTI_TILE=64K"}), agreement({"TUTTI_TILE=65536"}));
}

TEST(ParseBytes, TakesPowersOf1024) {
  EXPECT_EQ(parse_bytes("0").value(), 0u);
  EXPECT_EQ(parse_bytes("512").value(), 512u);
  EXPECT_EQ(parse_bytes("64K").value(), 65536u);
  EXPECT_EQ(parse_bytes("1m").value(), 1u << 20);
  EXPECT_EQ(parse_bytes("2G").value(), 2ull << 30);
  EXPECT_EQ(parse_bytes("18446744073709551615").value(), ~0ull);
}

TEST(ParseBytes, RefusesEverythingElse) {
  for (const char* text : {"", "K", "-1", "+1", " 1", "1 ", "1.5M", "1KB", "1T", "0x10", "1K1"})
    EXPECT_THAT(std::string(parse_bytes(text).status().message()), HasSubstr("not a number of bytes")) << text;
  for (const char* text : {"18446744073709551616", "18014398509481984K", "17179869184G"})
    EXPECT_THAT(std::string(parse_bytes(text).status().message()), HasSubstr("64 bits")) << text;
}

TEST(NearestName, FindsTypingErrorsAndKeepsQuietOtherwise) {
  const std::string_view names[] = {"ring", "tree", "all_pairs", "halving_doubling"};
  EXPECT_EQ(nearest_name("rign", names), "ring");
  EXPECT_EQ(nearest_name("RING", names), "ring");
  EXPECT_EQ(nearest_name("allpairs", names), "all_pairs");
  EXPECT_EQ(nearest_name("halving", names), "halving_doubling");
  EXPECT_EQ(nearest_name("nvls", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name("ring", {}), "");
}

}  // namespace
}  // namespace tutti
