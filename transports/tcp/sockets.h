// The socket calls of the tcp transport: how a listener and a connection are made, and what their errors mean in words.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

#include "base/config.h"
#include "base/fd.h"
#include "base/status.h"
#include "transports/tcp/tcp.h"

namespace tutti::tcp {

bool is_loopback(const sockaddr_storage& address);
// fe80::/10: means something only together with the interface it is reached through.
bool is_link_local(const sockaddr_storage& address);

// What all connections of one transport share.
struct ConnectionSettings {
  TcpOptions options;
  Nanoseconds timeout = 0;        // config.timeout
  std::string congestion;         // config.socket_congestion
  size_t descriptors_wanted = 0;  // what one link to and from every rank takes, for the message about a low limit
};

// tuttiInvalidUsage when the kernel has no such congestion control, or keeps it for root; lists what it has.
Status check_congestion(const std::string& name);

// A non-blocking socket for a connection, its options set. `same_host`: both ends are on this host.
Result<Fd> make_connection_socket(int family, bool same_host, const ConnectionSettings& settings);
// The same options for an accepted one.
void set_connection_options(int fd, bool same_host, const ConnectionSettings& settings);

// A failed call, with advice where it is known; running out of descriptors says how many there are and are needed.
Status socket_error(std::string_view call, int error_number, size_t descriptors_wanted);

// A connection that failed while in use: "connection to rank 2 (host h, pid p) at 10.0.0.2:4711: sendmsg: ...".
Status connection_error(std::string_view connection, std::string_view call, int error_number);

}  // namespace tutti::tcp
