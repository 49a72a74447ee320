// SendStripe: the sending half of a connection and the message parts that wait for it.
//
// Connects by itself, without blocking, trying again while the other side refuses; then hello, then parts in order. It
// does without a connection of its own where the peer has made one: see offer(). Parts refer to the caller's memory
// until they are written or detached. One thread at a time.
#pragma once

#include <sys/uio.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "transports/tcp/connection.h"
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

  SendStripe(const PeerEnd& peer, const Hello& hello, const HelloBytes& call, const ConnectionSettings& settings)
      : peer_(peer), hello_(hello), settings_(settings), opening_(call) {}
  ~SendStripe();
  SendStripe(const SendStripe&) = delete;
  SendStripe& operator=(const SendStripe&) = delete;

  const Hello& hello() const { return hello_; }
  bool room() const { return count_ < kDepth; }
  bool has_parts() const { return count_ > 0; }
  // Nothing is left to do: what opens an adopted connection is sent with its first message.
  bool idle() const { return count_ == 0 && (adopted_ || opening_sent_ == kHelloBytes); }

  // A connection that the peer made for its own sending on this channel and stripe, which may serve this direction too.
  // Taken at once while the own one has not said hello; else, if `then_move`, after what is under way, when there is
  // next something to send. If just one end ever moves, the two connections of ends that opened at the same time become
  // one: it is the end of the higher rank.
  struct Answers {
    HelloBytes plain, after_move;
  };
  void offer(std::shared_ptr<Connection> connection, const Answers& answers, bool then_move);
  // The connection that this stripe made, once, after it has said hello: the peer may answer on it.
  std::shared_ptr<Connection> take_made() { return opening_sent_ > 0 ? std::move(made_) : nullptr; }

  // Requires room() and a message of no more than kSmallBytes. Writes it if that can be done at once, in one system call
  // and without touching the queue; false where it is still to be pushed.
  bool send_small(const FrameHeader& header, std::span<const ConstPiece> pieces, size_t bytes);
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
  int descriptor() const { return connection_ ? connection_->fd() : fd_.get(); }
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

  Part& part(size_t i) { return parts_[(head_ + i) % parts_.size()]; }
  const Part& part(size_t i) const { return parts_[(head_ + i) % parts_.size()]; }
  Part& add_part(const FrameHeader& header);
  void adopt(std::shared_ptr<Connection> connection, const HelloBytes& answer);
  Status connect();
  Status connect_failed(std::string_view call, int error_number);
  Status write();
  void pop();
  void consume(size_t bytes);
  Status give_up(Status status);
  std::string name() const { return "connection to " + peer_.description; }

  const PeerEnd& peer_;
  const Hello hello_;
  const ConnectionSettings& settings_;
  Fd fd_;  // while it is being connected
  std::shared_ptr<Connection> connection_, made_;
  bool adopted_ = false;  // connection_ is one that the peer made
  HelloBytes opening_;    // what this end sends first on connection_
  size_t opening_sent_ = 0;
  std::shared_ptr<Connection> next_;  // to move to
  HelloBytes next_opening_;
  bool used_ = false;  // a message was pushed
  Nanoseconds first_try_ = 0, retry_at_ = 0, pause_ = 0;
  std::array<Part, kDepth + 1> parts_;  // one more for the word that the stripe moves
  size_t head_ = 0, count_ = 0;
  Status status_;
};

}  // namespace tutti::tcp
