#include "base/config.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/config_grammar.h"

namespace tutti {
namespace {

namespace grammar = config_grammar;

// p2p, verbs, ucx and sim are words of the language from the start, so that a value is either a typing error or names a
// part that this build lacks; the communicator says which.
constexpr std::array<std::string_view, 7> kTransports = {"self", "shm", "tcp", "p2p", "verbs", "ucx", "sim"};
constexpr std::array<std::string_view, 2> kProtocols = {"simple", "ll"};
constexpr std::array<std::string_view, 3> kDevices = {"host", "sim", "cuda"};
// Path classes between GPUs of a node (topo/fabric.h), from the nearest to the farthest.
constexpr std::array<std::string_view, 9> kP2pLevels = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PHB", "SYS"};
constexpr std::array<std::string_view, 6> kNetLevels = {"PIX", "PXB", "P2C", "PXN", "PHB", "SYS"};  // to network cards
constexpr std::array<std::string_view, 5> kFamilies = {"any", "ipv4", "ipv6", "AF_INET", "AF_INET6"};
constexpr std::array<AddressFamily, 5> kFamilyValues = {AddressFamily::any, AddressFamily::ipv4, AddressFamily::ipv6,
                                                        AddressFamily::ipv4, AddressFamily::ipv6};
constexpr std::array<std::string_view, 5> kLevels = {"NONE", "VERSION", "WARN", "INFO", "TRACE"};
constexpr std::array<std::string_view, 8> kSubsystems = {"ALL", "INIT", "BOOTSTRAP", "NET",
                                                         "SHM", "TUNE", "COLL",      "ENV"};
constexpr uint64_t kMostLanes = 16, kMostSockets = 16;
constexpr uint64_t kLeastTileBytes = 256, kMostTileBytes = 16 << 20, kTileUnitBytes = 64;

Status parse_transport(Config& config, std::string_view value) {
  TUTTI_TRY_ASSIGN(config.transport, grammar::parse_name_list(value, kTransports));
  const std::vector<std::string>& names = config.transport.names;
  if (config.transport.exclude && std::find(names.begin(), names.end(), "self") != names.end())
    return invalid_usage("self is how a rank reaches itself and is always there; leave it out of the list");
  return {};
}

Status parse_tile(Config& config, std::string_view value) {
  TUTTI_TRY_ASSIGN(const uint64_t bytes, parse_bytes(value));
  if (bytes < kLeastTileBytes || bytes > kMostTileBytes || bytes % kTileUnitBytes != 0)
    return invalid_usage("a tile has from {} to {} bytes, a multiple of {}; try 64K", kLeastTileBytes,
                         grammar::show_bytes(kMostTileBytes), kTileUnitBytes);
  config.tile_bytes = bytes;
  return {};
}

Status parse_device(Config& config, std::string_view value) {
  const size_t colon = value.find(':');
  TUTTI_TRY_ASSIGN(const size_t index, grammar::parse_word(value.substr(0, colon), kDevices));
  config.device = {static_cast<DeviceChoice::Kind>(index), std::nullopt};
  if (colon == std::string_view::npos) return {};
  constexpr uint64_t kMostDevices = 4096;
  TUTTI_TRY_ASSIGN(const uint64_t number, grammar::parse_integer(value.substr(colon + 1), 0, kMostDevices - 1));
  if (config.device.kind == DeviceChoice::Kind::host) return invalid_usage("the host has no number; write host");
  config.device.index = static_cast<int>(number);
  return {};
}

std::string show_device(const Config& config) {
  const std::string_view kind = kDevices[static_cast<size_t>(config.device.kind)];
  return config.device.index ? fmt::format("{}:{}", kind, *config.device.index) : std::string(kind);
}

Status parse_debug_subsys(Config& config, std::string_view value) {
  std::string upper(value);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  TUTTI_TRY_ASSIGN(config.debug_subsys, grammar::parse_name_list(upper, kSubsystems));
  return {};
}

Status parse_job_id(Config& config, std::string_view value) {
  constexpr size_t kMostBytes = 256;
  if (value.size() > kMostBytes) return invalid_usage("a job's name has at most {} bytes", kMostBytes);
  config.job_id = value;
  return {};
}

constexpr ConfigVariable kVariables[] = {
    {"TUTTI_ALGO", "[list;]collective:list;...", "",
     "Algorithms allowed, as comma lists: for all collectives, and for single ones after their name; a leading ^ "
     "excludes. Examples: ring; allreduce:tree;broadcast:ring; ^all_pairs. Not set: the cheapest is chosen.",
     [](Config& c, std::string_view v) -> Status {
       TUTTI_TRY_ASSIGN(c.algo, grammar::parse_algorithm_filter(v));
       return {};
     },
     [](const Config& c) { return grammar::show(c.algo); }},
    {"TUTTI_TRANSPORT", "[^]name,...", "",
     "Transports allowed, in order of preference; a leading ^ excludes. Names: self, p2p, shm, verbs, tcp, ucx (only "
     "where it is named). Not set: the fastest that reaches a peer.",
     parse_transport, [](const Config& c) { return grammar::show(c.transport); }},
    {"TUTTI_PROTO", "[^]name,...", "",
     "Protocols of kernels allowed: simple, ll (small messages, between devices that reach each other). Not set: "
     "chosen per operation.",
     [](Config& c, std::string_view v) -> Status {
       TUTTI_TRY_ASSIGN(c.proto, grammar::parse_name_list(v, kProtocols));
       return {};
     },
     [](const Config& c) { return grammar::show(c.proto); }},
    {"TUTTI_DEVICE", "host|sim|cuda[:index]", "host",
     "Where this rank's buffers live: in host memory, on a simulated GPU or on a CUDA GPU. Without an index rank r has "
     "device r, modulo their number.",
     parse_device, show_device},
    {"TUTTI_SIM_TOPO", "[NODESx]nvlinkGPUS|[NODESx]pcieGPUS|[NODESx]FILE", "nvlink8",
     "The machine that simulated GPUs are in, such as nvlink8 or 2xnvlink2, or as many of the node that a topology "
     "file describes (any that `tutti topo --file` reads; with a / or an ending .xml or .json); the same on all "
     "ranks.",
     [](Config& c, std::string_view v) -> Status {
       c.sim_topo = v;
       return {};
     },
     [](const Config& c) { return c.sim_topo.empty() ? "nvlink8" : c.sim_topo; }},
    {"TUTTI_P2P_LEVEL", "LOC|NVL|NVB|C2C|PIX|PXB|P2C|PHB|SYS", "SYS",
     "The farthest path by which two GPUs of a node may reach each other directly (p2p). Others go through the host.",
     [](Config& c, std::string_view v) -> Status {
       TUTTI_TRY_ASSIGN(const size_t index, grammar::parse_word(v, kP2pLevels));
       c.p2p_level = kP2pLevels[index];
       return {};
     },
     [](const Config& c) { return c.p2p_level; }},
    {"TUTTI_NET_LEVEL", "PIX|PXB|P2C|PXN|PHB|SYS", "SYS",
     "The farthest path by which a GPU's rank may reach a network card; cards beyond it are not used for that rank. "
     "Where none is left, the communicator refuses.",
     [](Config& c, std::string_view v) -> Status {
       TUTTI_TRY_ASSIGN(const size_t index, grammar::parse_word(v, kNetLevels));
       c.net_level = kNetLevels[index];
       return {};
     },
     [](const Config& c) { return c.net_level; }},
    {"TUTTI_LANES", "1..16", "", "Lanes that an operation is split into. Not set: chosen per operation.",
     [](Config& c, std::string_view v) -> Status {
       TUTTI_TRY_ASSIGN(c.lanes, grammar::parse_integer(v, 1, kMostLanes));
       return {};
     },
     [](const Config& c) { return c.lanes ? std::to_string(*c.lanes) : ""; }},
    {"TUTTI_TILE", "bytes, 256..16M", "",
     "Bytes of a chunk that travel as one message, a multiple of 64, with K, M or G. Not set: chosen per operation.",
     parse_tile, [](const Config& c) { return c.tile_bytes ? grammar::show_bytes(*c.tile_bytes) : ""; }},
    {"TUTTI_TUNING_FILE", "path", "",
     "File of measured costs that choices are made from, as tutti tune writes it; the same on all ranks. Not set: "
     "built-in costs.",
     [](Config& c, std::string_view v) -> Status {
       c.tuning_file = v;
       return {};
     },
     [](const Config& c) { return c.tuning_file; }},
    {"TUTTI_SOCKET_IFNAME", "[^][=]name,...", "",
     "Network interfaces to use: those whose name begins so, or after = is exactly so; a leading ^ excludes them. Not "
     "set: those that are up and as good as the best: InfiniBand first, loopback and container bridges last.",
     [](Config& c, std::string_view v) -> Status {
       TUTTI_TRY_ASSIGN(c.socket_ifname, grammar::parse_interface_filter(v));
       return {};
     },
     [](const Config& c) { return grammar::show(c.socket_ifname); }},
    {"TUTTI_SOCKET_FAMILY", "any|ipv4|ipv6", "any",
     "Address family of sockets; AF_INET and AF_INET6 are understood too.",
     [](Config& c, std::string_view v) -> Status {
       TUTTI_TRY_ASSIGN(const size_t index, grammar::parse_word(v, kFamilies));
       c.socket_family = kFamilyValues[index];
       return {};
     },
     [](const Config& c) { return std::string(kFamilies[static_cast<size_t>(c.socket_family)]); }},
    {"TUTTI_PORT_RANGE", "port or first-last", "",
     "TCP ports to listen on, for example where a firewall leaves some open. Not set: any free port.",
     [](Config& c, std::string_view v) -> Status {
       TUTTI_TRY_ASSIGN(c.port_range, grammar::parse_port_range(v));
       return {};
     },
     [](const Config& c) { return grammar::show(c.port_range); }},
    {"TUTTI_SOCKETS_PER_LINK", "1..16", "1",
     "TCP connections that share the traffic of one link; more may help on fast networks.",
     [](Config& c, std::string_view v) -> Status {
       TUTTI_TRY_ASSIGN(const uint64_t sockets, grammar::parse_integer(v, 1, kMostSockets));
       c.sockets_per_link = static_cast<uint32_t>(sockets);
       return {};
     },
     [](const Config& c) { return std::to_string(c.sockets_per_link); }},
    {"TUTTI_SOCKET_CONGESTION", "name", "",
     "TCP congestion control of all connections, one that the kernel has, such as cubic or bbr. Not set: cubic "
     "within a host, the system's choice between hosts.",
     [](Config& c, std::string_view v) -> Status {
       c.socket_congestion = v;
       return {};
     },
     [](const Config& c) { return c.socket_congestion; }},
    {"TUTTI_TIMEOUT", "seconds", "300",
     "An operation or a meeting without progress for this long is an error. Decimals are allowed.",
     [](Config& c, std::string_view v) -> Status {
       TUTTI_TRY_ASSIGN(c.timeout, grammar::parse_seconds(v));
       return {};
     },
     [](const Config& c) { return grammar::show_seconds(c.timeout); }},
    {"TUTTI_DEBUG", "NONE|VERSION|WARN|INFO|TRACE", "WARN", "How much is logged. INFO shows what was chosen and why.",
     [](Config& c, std::string_view v) -> Status {
       TUTTI_TRY_ASSIGN(const size_t index, grammar::parse_word(v, kLevels));
       c.debug = static_cast<LogLevel>(index);
       return {};
     },
     [](const Config& c) { return std::string(kLevels[static_cast<size_t>(c.debug)]); }},
    {"TUTTI_DEBUG_SUBSYS", "[^]name,...", "",
     "Subsystems whose INFO and TRACE lines are logged: INIT, BOOTSTRAP, NET, SHM, TUNE, COLL, ENV or ALL; a leading ^ "
     "excludes. Not set: all.",
     parse_debug_subsys, [](const Config& c) { return grammar::show(c.debug_subsys); }},
    {"TUTTI_DEBUG_FILE", "path", "",
     "File that log lines are appended to; %h stands for the host name, %p for the process id. Not set: stderr.",
     [](Config& c, std::string_view v) -> Status {
       TUTTI_TRY(grammar::check_file_pattern(v));
       c.debug_file = v;
       return {};
     },
     [](const Config& c) { return c.debug_file; }},
    {"TUTTI_TOPO_FILE", "path", "",
     "File that describes this host, in place of a probe: NCCL's topology XML, hwloc's XML, or what "
     "TUTTI_TOPO_DUMP_FILE writes. The order of ranks that work on GPUs follows from it. %h stands for the host "
     "name; hosts may have different files.",
     [](Config& c, std::string_view v) -> Status {
       c.topo_file = v;
       return {};
     },
     [](const Config& c) { return c.topo_file; }},
    {"TUTTI_TOPO_DUMP_FILE", "path", "",
     "File that the first rank of each host writes what that host is made of to, when it joins: as NCCL's topology XML "
     "where it ends in .xml, else as JSON, which tutti topo --file shows; %h stands for the host name, %p for the "
     "process id.",
     [](Config& c, std::string_view v) -> Status {
       TUTTI_TRY(grammar::check_file_pattern(v));
       c.topo_dump_file = v;
       return {};
     },
     [](const Config& c) { return c.topo_dump_file; }},
    {"TUTTI_SECRET_FILE", "path", "",
     "File whose contents are the key of a launcher's rendezvous, the same for all ranks and readable by their user "
     "only. Not set: a key that identifies the job but is no secret.",
     [](Config& c, std::string_view v) -> Status {
       c.secret_file = v;
       return {};
     },
     [](const Config& c) { return c.secret_file; }},
    {"TUTTI_JOB_ID", "text", "",
     "Tells this job's ranks from another's at a launcher's meeting point. `tutti run` sets it to a random word.",
     parse_job_id, [](const Config& c) { return c.job_id; }},
};

Status unknown_variable(std::string_view name) {
  constexpr std::string_view kPrefix = "TUTTI_";
  std::vector<std::string_view> endings;
  for (const ConfigVariable& variable : kVariables) endings.push_back(variable.name.substr(kPrefix.size()));
  const std::string_view near = nearest_name(name.substr(kPrefix.size()), endings);
  if (!near.empty()) return invalid_usage("there is no variable {}; did you mean {}{}?", name, kPrefix, near);
  std::string all;
  for (const ConfigVariable& variable : kVariables) all += fmt::format("{}{}", all.empty() ? "" : ", ", variable.name);
  return invalid_usage("there is no variable {}; unset it, or use one of {}", name, all);
}

Status apply_entry(Config& config, std::string_view entry) {
  const size_t equals = entry.find('=');
  if (equals == std::string_view::npos || !entry.starts_with("TUTTI_")) return {};
  const std::string_view name = entry.substr(0, equals), value = entry.substr(equals + 1);
  const auto* row = std::find_if(std::begin(kVariables), std::end(kVariables),
                                 [name](const ConfigVariable& variable) { return variable.name == name; });
  if (row == std::end(kVariables)) return unknown_variable(name);
  // The first of two entries with one name is the one that getenv would find.
  if (value.empty() || config.is_set(name)) return {};
  if (Status status = row->parse(config, value); !status.ok()) return status.within(entry);
  config.set_variables.emplace_back(name);
  return {};
}

}  // namespace

bool NameList::allows(std::string_view name) const {
  if (names.empty()) return true;
  return (std::find(names.begin(), names.end(), name) != names.end()) != exclude;
}

const NameList& AlgorithmFilter::for_collective(Collective collective) const {
  for (const auto& [own, list] : per_collective)
    if (own == collective) return list;
  return general;
}

bool InterfaceFilter::allows(std::string_view name) const {
  if (names.empty()) return true;
  const bool named = std::any_of(names.begin(), names.end(),
                                 [&](const std::string& own) { return exact ? name == own : name.starts_with(own); });
  return named != exclude;
}

bool Config::is_set(std::string_view variable) const {
  return std::find(set_variables.begin(), set_variables.end(), variable) != set_variables.end();
}

std::vector<std::string> Config::agreement() const {
  static constexpr std::string_view kAgreed[] = {"TUTTI_ALGO",  "TUTTI_TRANSPORT", "TUTTI_PROTO",
                                                 "TUTTI_LANES", "TUTTI_TILE",      "TUTTI_SOCKETS_PER_LINK",
                                                 "TUTTI_SIM_TOPO"};
  std::vector<std::string> settings;
  for (const ConfigVariable& row : kVariables)
    if (std::ranges::find(kAgreed, row.name) != std::end(kAgreed))
      settings.push_back(row.show(*this).empty() ? fmt::format("no {}", row.name)
                                                 : fmt::format("{}={}", row.name, row.show(*this)));
  return settings;
}

std::span<const ConfigVariable> config_variables() { return kVariables; }

Result<Config> config_from_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry && *entry; ++entry) entries.emplace_back(*entry);
  return config_from_entries(entries);
}

Result<Config> config_from_entries(std::span<const std::string> environ_entries) {
  Config config;
  for (const std::string& entry : environ_entries) TUTTI_TRY(apply_entry(config, entry));
  return config;
}

}  // namespace tutti
