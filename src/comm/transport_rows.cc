#include "comm/transport_rows.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "transports/p2p/p2p.h"
#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"

namespace tutti {
namespace {

Result<std::unique_ptr<Transport>> make_p2p(const TransportContext& context, Device* device) {
  if (!device) return fail(tuttiSystemError, "its buffers are in host memory");
  TUTTI_TRY_ASSIGN(auto made, make_p2p_transport(context, *device));
  return std::unique_ptr<Transport>(std::move(made));
}

// Most preferred first. A new one is a folder and a row.
constexpr TransportRow kTransports[] = {
    {"p2p", true, true, make_p2p},
    {"shm", true, true, [](const TransportContext& c, Device*) { return make_shm_transport(c); }},
    {"tcp", false, false, [](const TransportContext& c, Device*) { return make_tcp_transport(c); }},
};
// Words of TUTTI_TRANSPORT for what this build lacks, and why.
constexpr std::pair<std::string_view, std::string_view> kMissing[] = {
    {"verbs", "this build has no code for InfiniBand and RoCE"},
    {"ucx", "this build has no code for UCX"},
    {"sim", "it is for tests, within one process"},
};

// What the host could do: a hint beside the reason.
std::string rdma_devices() {
  std::error_code error;
  std::string names;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband", error))
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.path().filename().string());
  return names.empty() ? "this host has no RDMA device" : "this host has the RDMA devices " + names;
}

Status missing_transport(const std::string& name) {
  for (const auto& [missing, why] : kMissing)
    if (missing == name)
      return invalid_usage("TUTTI_TRANSPORT asks for {}, which is not available: {}{}; there are p2p, shm, tcp and self",
                           name, why, name == "verbs" || name == "ucx" ? ", and " + rdma_devices() : "");
  return invalid_usage("TUTTI_TRANSPORT asks for {}, which this build does not have; it has p2p, shm, tcp and self", name);
}

}  // namespace

Result<std::vector<const TransportRow*>> allowed_transports(const NameList& wanted) {
  std::vector<const TransportRow*> rows;
  const auto find = [](std::string_view name) {
    return std::find_if(std::begin(kTransports), std::end(kTransports), [&](auto& row) { return row.name == name; });
  };
  for (const std::string& name : wanted.names)
    if (!wanted.exclude && name != "self" && find(name) == std::end(kTransports)) return missing_transport(name);
  if (wanted.exclude || wanted.empty()) {
    for (const TransportRow& row : kTransports)
      if (wanted.allows(row.name)) rows.push_back(&row);
  } else {
    for (const std::string& name : wanted.names)
      if (name != "self") rows.push_back(find(name));
  }
  return rows;
}

std::string left_out_text(const std::vector<const TransportRow*>& rows) {
  std::string text;
  for (const TransportRow& row : kTransports)
    if (std::ranges::find(rows, &row) == rows.end())
      text += fmt::format("; not {}: TUTTI_TRANSPORT leaves it out", row.name);
  for (const auto& [name, why] : kMissing)
    if (name != "sim") text += fmt::format("; not {}: {}", name, why);
  return text;
}

bool stays_in_a_node(std::string_view name) {
  return std::ranges::any_of(kTransports, [&](const TransportRow& row) { return row.name == name && row.in_a_node; });
}

}  // namespace tutti
