// The tcp transport: put links over TCP sockets, IPv4 or IPv6.
//
// Every rank listens on one port of its chosen interface. A link is one connection (config.sockets_per_link of them:
// its stripes) from the sending to the receiving rank, and bytes travel in that direction only: closing can then never
// discard what has been sent, because there is never anything unread on the sender's side. The first bytes of a
// connection are a hello that proves, by HMAC-SHA256, the key of the communicator and the cookie of this listener;
// whoever cannot say it within 5 s is dropped without a word.
//
//   sender    put() -> sendmsg(header + the caller's pieces), what the kernel does not take at once from progress()
//   receiver  receive() -> header, then readv() straight into the caller's pieces
//
// A message of at most 1 KiB is copied when the kernel does not take it at once, so that retired() counts it right
// after put(). A message of at least TcpOptions::stripe_threshold_bytes is cut into equal parts, one per stripe.
//
// Cost: one descriptor per connection, two for the listener; 2 KiB of memory per receiving connection.
// Links must be destroyed before their transport. Destroying a link closes its connections as soon as everything that
// the transport owns a copy of has been sent; what was neither retired nor detached is abandoned, and the receiver sees
// a connection that ends in mid-message. Destroying the transport abandons all that drained() still waits for.
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
