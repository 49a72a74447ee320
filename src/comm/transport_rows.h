// The transports that a communicator may use between ranks. The one place that names concrete transports, beside
// wiring.cc for the loopback and for what only devices ask of p2p.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "cuda/device.h"
#include "transports/transport.h"

namespace tutti {

struct TransportRow {
  std::string_view name;
  bool mapped;      // its links are
  bool in_a_node;   // it does not leave a node, which may be one of several simulated ones of a host
  bool when_named;  // taken only where TUTTI_TRANSPORT names it
  Result<std::unique_ptr<Transport>> (*make)(const TransportContext&, Device* device);
};

// TUTTI_TRANSPORT's, in its order, or those that are taken unnamed, most preferred first; "self" is always there and
// may be named. Refuses what no build has, with the reason.
Result<std::vector<const TransportRow*>> allowed_transports(const NameList& wanted);
// "; not shm: ..." for each transport that is not among `rows`.
std::string left_out_text(const std::vector<const TransportRow*>& rows);
// By the name of a row.
bool stays_in_a_node(std::string_view name);

}  // namespace tutti
