// SendStripe: one outgoing connection and the message parts that wait for it.
//
// Connects by itself, lazily and without blocking, trying again while the other side refuses; then hello, then parts in
// order. Parts refer to the caller's memory until they are written or detached. One thread at a time.
#pragma once

#include <sys/uio.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "transports/tcp/sockets.h"
#include "transports/tcp/wire.h"
#include "transports/transport.h"

namespace tutti::tcp {

// The rank at the other end.
struct PeerEnd {
  sockaddr_storage address{};
  bool same_host = false;
  std::string description;  // "rank 2 (host b, pid 7) at 10.0.0.2:4711"
};

class SendStripe {
 public:
  // Messages that wait in one stripe at most.
  static constexpr size_t kDepth = 8;
  // Payloads up to this are copied when they cannot be written at once.
  static constexpr size_t kSmallBytes = 1024;

  SendStripe(const PeerEnd& peer, const HelloBytes& hello, const ConnectionSettings& settings)
      : peer_(peer), hello_(hello), settings_(settings) {}

  bool room() const { return count_ < kDepth; }
  bool has_parts() const { return count_ > 0; }
  // Connected, and nothing is left to write.
  bool idle() const { return count_ == 0 && hello_sent_ == kHelloBytes; }
  // Requires room(). The bytes [offset, offset + bytes) of the message in `pieces`; `message` counts the link's
  // messages.
  void push(const FrameHeader& header, std::span<const ConstPiece> pieces, size_t offset, size_t bytes,
            uint64_t message);
  // Goes on connecting and writing as far as it can at once. Errors are sticky: tuttiRemoteError naming the peer.
  Status advance();
  const Status& status() const { return status_; }

  // The number of the first message whose memory is still needed, or `none`.
  uint64_t first_borrowed(uint64_t none) const;
  // Copies what is unsent. `up_to_bytes`: only parts of which no more than this is unsent.
  void detach(size_t up_to_bytes = SIZE_MAX);

  // -1 while between two attempts to connect.
  int descriptor() const { return fd_.get(); }
  // Takes what the kernel has learnt about the connection. False when it broke although messages travelled on it: a
  // peer that was never sent anything may have left before it read the hello, and that is no failure by itself.
  bool check_broken();

  bool listed = false;  // the transport's mark: this stripe is among the busy ones

 private:
  struct Part {
    FrameHeader header;
    std::vector<iovec> unsent;  // the header, then the payload
    size_t first = 0;           // the entries of `unsent` before this one are written
    std::vector<std::byte> copy;
    uint64_t message = 0;
    bool borrowed = false;
  };

  Part& part(size_t i) { return parts_[(head_ + i) % kDepth]; }
  const Part& part(size_t i) const { return parts_[(head_ + i) % kDepth]; }
  Status connect();
  Status connect_failed(std::string_view call, int error_number);
  Status write();
  void consume(size_t bytes);
  Status give_up(Status status);
  std::string name() const { return "connection to " + peer_.description; }

  const PeerEnd& peer_;
  const HelloBytes hello_;
  const ConnectionSettings& settings_;
  Fd fd_;
  bool connected_ = false;
  bool used_ = false;  // a message was pushed
  size_t hello_sent_ = 0;
  Nanoseconds first_try_ = 0, retry_at_ = 0, pause_ = 0;
  std::array<Part, kDepth> parts_;
  size_t head_ = 0, count_ = 0;
  Status status_;
};

}  // namespace tutti::tcp
