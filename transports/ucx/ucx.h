// The ucx transport: put links over UCX's tagged messages, by whatever UCX finds (TCP, shared memory, verbs, ...); its
// own variables (UCX_TLS, UCX_NET_DEVICES, ...) choose among them. For fabrics that Tutti has no transport for.
//
//   sender    put() -> a copy of the message: a frame (stamp, size, the first bytes), and what does not fit it as a
//             message of its own, which UCX sends at once or offers for the receiver to fetch (rendezvous)
//   receiver  a receive for the next frame is always posted. The rest is received here, too, and copied: UCX cannot
//   take
//             back a receive that has begun, and an operation that has failed must leave its caller's memory alone
//   credit    a link has up to kDepth messages that the receiver has not released; every other release is told
//   leaving   a rank that leaves says so on all its endpoints, so that its peers can tell it from a slow one
//
// A message counts as retired right after put(). drained() waits until UCX has handed everything over, which for an
// offered message means that the receiver has fetched it.
//
// A lost peer is noticed by UCX where its transport can, and on the same host by the end of its process.
// Cost: a worker and its event descriptor per rank, an endpoint and (same host) a pidfd per peer; per link up
// to kDepth copies of messages.
#pragma once

#include <memory>

#include "transports/transport.h"

namespace tutti {

// Errors: tuttiSystemError, with UCX's reason, where UCX has no transport that may be used.
Result<std::unique_ptr<Transport>> make_ucx_transport(const TransportContext& context);

}  // namespace tutti
