// Acceptor: the listening side of the tcp transport, up to the point where a connection has proved who it is.
//
// One listening socket, one epoll descriptor that watches it and the connections whose hello is still incomplete.
// Strangers cost at most kMaxPending descriptors, for at most the hello patience each, and nothing else: their
// connections are closed and not spoken of (one line at TUTTI_DEBUG=TRACE).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/fd.h"
#include "base/network_interface.h"
#include "transports/tcp/sockets.h"
#include "transports/tcp/wire.h"

namespace tutti::tcp {

constexpr size_t kMaxPending = 128;

// A connection that proved itself. Nothing after the hello has been read from it.
struct Guest {
  Hello hello;
  Fd fd;
  std::string from;  // "10.0.0.2:4711"
};

// One thread at a time; nothing blocks.
class Acceptor {
 public:
  // Listens at the address, on a port of the range. Errors: tuttiSystemError (all ports taken, ...).
  static Result<std::unique_ptr<Acceptor>> create(const sockaddr_storage& address, PortRange ports,
                                                  const ConnectionSettings& settings, std::vector<std::byte> key);

  // Listens at one more address. Where its ports are taken, it is left out.
  void listen_also(const sockaddr_storage& address, PortRange ports);
  // Those that listen_also() added.
  std::vector<sockaddr_storage> further_addresses() const;

  const sockaddr_storage& local_address() const { return listener_.address; }
  const Cookie& cookie() const { return cookie_; }
  // Readable when poll() may have something to do.
  int descriptor() const { return epoll_.get(); }
  bool anyone_pending() const { return !pending_.empty(); }

  // Accepts, reads hellos, appends the guests, drops the rest. One system call when nothing has come.
  // Out of descriptors it waits for strangers to time out, and is an error (tuttiSystemError) when there are none.
  Status poll(std::vector<Guest>& guests);

 private:
  struct Pending {
    Fd fd;
    std::string from;
    HelloBytes bytes{};
    size_t got = 0;
    Nanoseconds since = 0;
  };
  enum class Reading : uint8_t { more, guest, drop };

  Acceptor(const ConnectionSettings& settings, std::vector<std::byte> key)
      : settings_(settings), key_(std::move(key)) {}
  Status accept_all(int listener, std::vector<Guest>& guests);
  Reading read_hello(Pending& pending, Hello& hello);
  void admit(Pending& pending, const Hello& hello, std::vector<Guest>& guests);
  size_t expire();
  void watch_listener(bool watch);

  const ConnectionSettings settings_;
  const std::vector<std::byte> key_;
  Cookie cookie_{};
  Listener listener_;
  std::vector<std::unique_ptr<Listener>> further_;  // known to epoll by their addresses
  Fd epoll_;
  bool listener_watched_ = true;
  std::vector<std::unique_ptr<Pending>> pending_;
};

}  // namespace tutti::tcp
