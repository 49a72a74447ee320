// Parameters: what links and cores cost, in seconds. What the tuner's predictions are made from.
//
// Built-in ones per machine class, or measured ones from a file that `tutti tune` writes and TUTTI_TUNING_FILE names.
// A field is a row of the table in parameters.cc, which the file's reader and writer, the hash and `tutti tune` go by.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti {

enum class LinkKind : uint8_t { mapped, tcp_one_host, tcp_between_hosts };
constexpr size_t kLinkKinds = 3;
std::string_view name_of(LinkKind kind);

struct LinkParameters {
  double latency_s = 0;           // from a message's departure to when its receiver, which waits for it, goes on
  double transit_s_per_byte = 0;  // what its bytes add to that, while neither end works on them
  double message_s = 0;           // of the core at each end, for each message
  double send_s_per_byte = 0;
  double receive_s_per_byte = 0;
};

struct Parameters {
  std::array<LinkParameters, kLinkKinds> links;  // by LinkKind
  double step_s = 0;                             // one iteration of a move
  double fold_s_per_byte = 0;                    // each operand beyond the first
  double store_s_per_byte = 0;                   // into the caller's buffer
  double handover_s = 0;   // from one rank to another on the same core, where ranks outnumber cores
  double operation_s = 0;  // of a call, whatever its size
  double spill = 0;        // the part by which bytes cost more when messages do not stay in the second-level cache

  const LinkParameters& link(LinkKind kind) const { return links[static_cast<size_t>(kind)]; }
};

// A row of the table. In the file the name stands with the unit: nanoseconds, nanoseconds per KiB, or a plain factor.
struct ParameterField {
  std::string_view name;
  double unit_s;       // what 1 in the file means; 1 for a factor
  double least, most;  // in the file's unit
  double& (*of)(Parameters&);
  double in_file_unit(const Parameters& p) const { return of(const_cast<Parameters&>(p)) / unit_s; }
};
std::span<const ParameterField> parameter_fields();

// A machine by what decides most: whether a line goes from core to core within a last-level cache.
enum class MachineClass : uint8_t { one_last_level_cache, several_last_level_caches };
const Parameters& built_in_parameters(MachineClass machine);

// Equal for equal values, as the file would show them.
uint64_t hash_of(const Parameters& parameters);

// ---- the file

// JSON: {"tutti_tuning": 1, "parameters": {"mapped_latency_ns": 80, ...}}; other members are notes and are not read.
// Fields that are left out are those of `otherwise`. Errors (tuttiInvalidUsage) say what is wrong and where.
Result<Parameters> parse_parameters(std::string_view text, const Parameters& otherwise);
Result<Parameters> read_parameters(const std::string& path, const Parameters& otherwise);
// What parse_parameters() reads; `notes` are pairs of a name and a text.
std::string to_json(const Parameters& parameters, std::span<const std::pair<std::string, std::string>> notes);

}  // namespace tutti
