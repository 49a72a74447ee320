// The tcp transport: put links over TCP sockets, IPv4 or IPv6.
//
// Every rank listens on one port of its chosen interface, and on one of each other that is as good (tcp_rails.cc): where two
// hosts share several networks, the stripes of a link take turns over them. set_peers() then tries them, which blocks for a
// round trip, or for up to 0.9 s where one does not answer. The links of a channel between two ranks, one each way, share a
// connection (config.sockets_per_link of them: their stripes), which whoever opens a send end first makes. Where both do
// at the same time there are two, and the rank with the higher number moves to the other's with its next message. What
// each end sends begins with a hello that proves, by HMAC-SHA256, the key of the communicator and the cookie of the
// listener; whoever connects and cannot say it within 5 s is dropped without a word.
//
//   sender    put() -> sendmsg(header + the caller's pieces), what the kernel does not take at once from progress()
//   receiver  receive() -> readv(the rest of the payload straight into the caller's pieces, the next header)
//
// A message of at most 1 KiB is copied when the kernel does not take it at once, so that retired() counts it right
// after put(). A message of at least TcpOptions::stripe_threshold_bytes is cut into equal parts, one per stripe.
//
// Cost: one descriptor per connection, two for the listener; 8 KiB of memory per connection that is received from; per
// message one system call at each end, as long as the kernel takes, and has, all of it.
// Links must be destroyed before their transport. Destroying a send link ends its direction as soon as everything that
// the transport owns a copy of has been sent; what was neither retired nor detached is abandoned, and the receiver sees
// a connection that ends in mid-message. A connection is closed with the second of its links: a receive link that is
// destroyed alone only stops reading. Destroying the transport abandons all that drained() still waits for.
#pragma once

#include <memory>

#include "base/clock.h"
#include "transports/transport.h"

namespace tutti {

// What the environment does not choose. The defaults are for users, other values for tests and measurements.
struct TcpOptions {
  size_t stripe_threshold_bytes = 128 * 1024;  // smaller messages travel on the first stripe alone
  int send_buffer_bytes = 0;                   // SO_SNDBUF and SO_RCVBUF; 0: the kernel tunes them
  int receive_buffer_bytes = 0;
  Nanoseconds hello_patience = 5 * kSecond;    // how long a connection may take to prove who it is
  Nanoseconds refusal_patience = 3 * kSecond;  // how long a refused connection is tried again
};

// Listens. Errors: tuttiInvalidUsage (no interface fits, every port of the range is taken), tuttiSystemError.
Result<std::unique_ptr<Transport>> make_tcp_transport(const TransportContext& context, const TcpOptions& options = {});

}  // namespace tutti
