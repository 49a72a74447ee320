// What a transport plug-in (libtutti_verbs.so, libtutti_ucx.so) exports: one constant of C linkage by the name of
// kTransportPluginSymbol. A plug-in is loaded when its transport may be used (comm/transport_rows.cc); it has copies of
// its own of base/, so its `make` begins by configuring the log.
#pragma once

#include <cstddef>
#include <memory>

#include "transports/transport.h"
#include "tutti/tutti.h"

namespace tutti {

inline constexpr const char* kTransportPluginSymbol = "tutti_transport_plugin";

struct TransportPlugin {
  // Library and plug-in share C++ types, so both are of one build: the loader refuses one that differs in these.
  int version = TUTTI_VERSION_CODE;
  size_t context_bytes = sizeof(TransportContext);

  // As make_tcp_transport(). tuttiInvalidUsage is for a setting that the user must mend; anything else (no device, no
  // library) only takes the transport away, and its text is the reason that is shown.
  Result<std::unique_ptr<Transport>> (*make)(const TransportContext& context) = nullptr;
};

}  // namespace tutti
