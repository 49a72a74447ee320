// Config: every TUTTI_ environment variable, in one table.
//
// The table (config.cc) is the only place that names variables; docs/env.md and `tutti env` are printed from it. A
// Config is parsed once per communicator and passed down; nothing else in the library reads the environment, except the
// launcher's variables (bootstrap/launcher.h). An unknown TUTTI_ name or a bad value is an error (tuttiInvalidUsage)
// with a suggestion; an empty value counts as not set. Variables that only a tool reads or sets are rows too, since
// every TUTTI_ name must be known: a new variable is one field below and one row in config.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"

namespace tutti {

// A comma list, optionally inverted by a leading '^'. Empty and not inverted: no restriction.
struct NameList {
  bool exclude = false;
  std::vector<std::string> names;
  bool empty() const { return names.empty(); }
  bool allows(std::string_view name) const;
  bool operator==(const NameList&) const = default;
};

// TUTTI_ALGO: `[list;]collective:list;...`. The list for a collective, falling back to the general one.
struct AlgorithmFilter {
  NameList general;
  std::vector<std::pair<Collective, NameList>> per_collective;
  const NameList& for_collective(Collective collective) const;
};

// TUTTI_SOCKET_IFNAME: `[^][=]name,...`: prefixes, or whole names after '='; '^' excludes.
struct InterfaceFilter {
  bool exclude = false, exact = false;
  std::vector<std::string> names;
  bool allows(std::string_view name) const;
};

enum class AddressFamily : uint8_t { any, ipv4, ipv6 };
enum class LogLevel : uint8_t { none, version, warn, info, trace };

// TUTTI_DEVICE: where buffers live.
struct DeviceChoice {
  enum class Kind : uint8_t { host, sim, cuda } kind = Kind::host;
  std::optional<int> index;
};

struct PortRange {
  uint16_t first = 0, last = 0;  // inclusive; 0-0: any port
};

struct Config {
  AlgorithmFilter algo;
  NameList transport;                  // allowed transports, in order of preference
  std::optional<uint32_t> lanes;       // TUTTI_LANES
  std::optional<uint64_t> tile_bytes;  // TUTTI_TILE
  NameList proto;                      // TUTTI_PROTO
  DeviceChoice device;                 // TUTTI_DEVICE
  std::string sim_topo;                // TUTTI_SIM_TOPO; empty: nvlink8
  std::string p2p_level = "SYS";       // TUTTI_P2P_LEVEL: a path class, in capitals
  std::string net_level = "SYS";       // TUTTI_NET_LEVEL: the same
  // Names of the network cards and interfaces that net_level keeps this rank's GPU from. Not from the environment: the
  // communicator fills it in when it knows the machine.
  std::vector<std::string> far_cards;
  std::string tuning_file;             // TUTTI_TUNING_FILE; what it says is compared apart (comm/wiring.cc)
  InterfaceFilter socket_ifname;
  AddressFamily socket_family = AddressFamily::any;
  PortRange port_range;
  uint32_t sockets_per_link = 1;
  std::string socket_congestion;  // TUTTI_SOCKET_CONGESTION; empty: chosen per connection
  Nanoseconds timeout = 300 * kSecond;
  LogLevel debug = LogLevel::warn;
  NameList debug_subsys;
  std::string debug_file;  // with %h and %p; empty: stderr
  std::string topo_file;   // TUTTI_TOPO_FILE, with %h and %p
  std::string topo_dump_file;  // TUTTI_TOPO_DUMP_FILE, with %h and %p
  std::string secret_file;
  std::string job_id;  // TUTTI_JOB_ID: set by `tutti run`, part of a launcher's derived rendezvous key

  // Whether the variable was set in the environment (even to its default).
  bool is_set(std::string_view variable) const;
  std::vector<std::string> set_variables;
  // The same on all ranks or init refuses: what changes the messages that are sent, one "NAME=value in force" or
  // "no NAME" each.
  std::vector<std::string> agreement() const;
};

// One row of the table.
struct ConfigVariable {
  std::string_view name;                             // "TUTTI_ALGO"
  std::string_view type;                             // how the value is written
  std::string_view default_value;                    // empty: not set, the help says what happens then
  std::string_view help;                             // one or two sentences
  Status (*parse)(Config&, std::string_view value);  // the error does not repeat the name
  std::string (*show)(const Config&);                // the value in force, in the variable's own syntax
};
std::span<const ConfigVariable> config_variables();

using EnvironmentReader = std::function<const char*(const char* name)>;

// Parses the process environment (or `environ_entries`, "NAME=value" each, for tests). Reports the first error.
Result<Config> config_from_environment();
Result<Config> config_from_entries(std::span<const std::string> environ_entries);

// "1M", "64K", "512", "2G" (powers of 1024) as bytes.
Result<uint64_t> parse_bytes(std::string_view text);

// The candidate nearest to `word` by edit distance (case and a missing or added ending forgiven), or empty when none is
// near enough to be what was meant. O(candidates x length^2).
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace tutti
