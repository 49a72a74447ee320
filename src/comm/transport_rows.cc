#include "comm/transport_rows.h"

#include <algorithm>
#include <utility>

#include "comm/plugin.h"
#include "transports/p2p/p2p.h"
#include "transports/plugin.h"
#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"

namespace tutti {
namespace {

Result<std::unique_ptr<Transport>> make_p2p(const TransportContext& context, Device* device) {
  if (!device) return fail(tuttiSystemError, "its buffers are in host memory");
  TUTTI_TRY_ASSIGN(auto made, make_p2p_transport(context, *device));
  return std::unique_ptr<Transport>(std::move(made));
}

template <const char* name>
Result<std::unique_ptr<Transport>> make_plugged(const TransportContext& context, Device*) {
  TUTTI_TRY_ASSIGN(const void* symbol, plugin_symbol(name, kTransportPluginSymbol));
  const auto& plugin = *static_cast<const TransportPlugin*>(symbol);
  if (plugin.version != TUTTI_VERSION_CODE || plugin.context_bytes != sizeof(TransportContext))
    return fail(tuttiSystemError, "the plug-in libtutti_{}.so is of another build of Tutti; install both from one",
                name);
  return plugin.make(context);
}
constexpr char kVerbs[] = "verbs", kUcx[] = "ucx";

// Most preferred first. A new one is a folder and a row. UCX goes the ways that the others go, with a library between:
// it is for those who ask for it.
constexpr TransportRow kTransports[] = {
    {"p2p", true, true, false, make_p2p},
    {"shm", true, true, false, [](const TransportContext& c, Device*) { return make_shm_transport(c); }},
    {kVerbs, false, false, false, make_plugged<kVerbs>},
    {"tcp", false, false, false, [](const TransportContext& c, Device*) { return make_tcp_transport(c); }},
    {kUcx, false, false, true, make_plugged<kUcx>},
};

}  // namespace

Result<std::vector<const TransportRow*>> allowed_transports(const NameList& wanted) {
  std::vector<const TransportRow*> rows;
  const auto find = [](std::string_view name) {
    return std::find_if(std::begin(kTransports), std::end(kTransports), [&](auto& row) { return row.name == name; });
  };
  for (const std::string& name : wanted.names)
    if (!wanted.exclude && name == "sim") return invalid_usage("TUTTI_TRANSPORT asks for sim, which is for tests");
  if (wanted.exclude || wanted.empty()) {
    for (const TransportRow& row : kTransports)
      if (wanted.allows(row.name) && !row.when_named) rows.push_back(&row);
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
      text +=
          fmt::format("; not {}: TUTTI_TRANSPORT {}", row.name, row.when_named ? "does not name it" : "leaves it out");
  return text;
}

bool stays_in_a_node(std::string_view name) {
  return std::ranges::any_of(kTransports, [&](const TransportRow& row) { return row.name == name && row.in_a_node; });
}

}  // namespace tutti
