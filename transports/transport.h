// Transport: a way to make links. Link: one ordered, one-directional FIFO of messages between two ranks.
//
// The contract between the host engine and every transport; the conformance suite (tests/conformance) is its test. A
// transport knows messages and bytes, never plans, types or reductions, and includes nothing of Tutti but this and base/.
//
// Two kinds of link:
//   mapped (shm)    The sender writes a message straight into memory that the receiver reads: claim(), write, post().
//                   The receiver reads it there: receive() gives its address, release() returns the credit.
//                   Two shortcuts, which either end may take or leave: lend(), the receiver reads the message where the
//                   sender has it; and grant(), the sender writes it where the receiver wants it.
//   put (tcp, ...)  The sender hands over where the bytes lie: put(). They stay readable until retired() counts that
//                   message or detach() copied them. The receiver names where they are to land: receive() fills it.
//
// Threads. A transport and its links belong to one rank and are used by one thread at a time. Nothing here blocks,
// sleeps or starts a thread: an endpoint that cannot go on says so, and the wait loop asks again (engine/wait.h).
//
// Opening is lazy and needs no agreement: send and receive ends of one (source, destination, channel) may be opened at
// any time, and messages wait for the other end. Every link accepts at least one message (of up to max_message_bytes())
// before the receiver does anything, a mapped one at least two: plans are proved at a depth of one, and the engine keeps
// one more room of a mapped link occupied while it folds from there into the next (docs/plan-ir.md, Depth).
//
// Errors. A lost peer, a broken connection, a failed system call: a Status (tuttiRemoteError or tuttiSystemError) that
// names the peer as `describe` gives it, the system call and errno. Errors are sticky.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "base/strong_int.h"

namespace tutti {

// Travels with every message: which operation it belongs to. `sequence` counts the operations of the communicator (for
// send and recv: those between the two ranks), `tag` encodes collective, type, operation, root and count. A receiver
// whose stamp differs gets a mismatch instead of the data.
struct Stamp {
  uint64_t tag = 0;
  uint32_t sequence = 0;
  bool operator==(const Stamp&) const = default;
};

// A message in pieces: gathered from (put) or scattered to (receive). Pieces may be empty; the message is their
// concatenation.
struct ConstPiece {
  const std::byte* data;
  size_t bytes;
};
struct MutablePiece {
  std::byte* data;
  size_t bytes;
};
size_t total_bytes(std::span<const ConstPiece> pieces);
size_t total_bytes(std::span<const MutablePiece> pieces);

// Where the sender of a mapped link writes a message. Null while there is no credit.
struct Room {
  std::byte* data = nullptr;
  bool granted = false;  // it is the receiver's own memory, not a slot: any alignment, and nobody reads it soon
  explicit operator bool() const { return data != nullptr; }
};

class SendLink {
 public:
  virtual ~SendLink() = default;
  virtual bool mapped() const = 0;

  // Mapped. Room for the next message of `bytes` <= max_message_bytes(), 64-byte aligned unless granted. Calling it again
  // before post() gives the same room.
  virtual Result<Room> claim(size_t bytes) = 0;
  // Mapped. Publishes what was written to the claimed room. The data is visible to the receiver before the message is.
  virtual void post(size_t bytes, const Stamp& stamp) = 0;
  // Mapped. Instead of claim() and post(): sends the message that lies at `data`, which must stay unchanged until
  // retired() > the number of messages before this one. False, and nothing is sent: the peer cannot read that memory, or
  // there is no credit; claim() is the way then.
  virtual Result<bool> lend(const std::byte* data, size_t bytes, const Stamp& stamp) {
    (void)data, (void)bytes, (void)stamp;
    return false;
  }

  // Put. Takes the next message; false (nothing taken) while the link's queue is full. The pieces' memory must stay
  // unchanged until retired() > the number of messages put before this one, or detach().
  virtual Result<bool> put(std::span<const ConstPiece> pieces, const Stamp& stamp) = 0;
  // How many of the messages sent so far no longer need their source memory (on a mapped link: any but lent ones never
  // did). A put link's moves on inside Transport::progress() and put().
  virtual uint64_t retired() = 0;
  // Put. Copies what is still unsent of all messages, so that retired() counts them all. Never blocks.
  virtual void detach() = 0;
};

struct Arrival {
  enum class State : uint8_t { pending, arrived, mismatch };
  State state = State::pending;
  const std::byte* data = nullptr;  // arrived on a mapped link: where the message lies, contiguous, until release()
  Stamp stamp;                      // mismatch: what came instead
  size_t bytes = 0;                 // mismatch: its size
};

class RecvLink {
 public:
  virtual ~RecvLink() = default;
  virtual bool mapped() const = 0;
  // Asks for the next message, which must have this stamp and size. `into` is where a put link stores it (total_bytes
  // (into) == bytes; ignored by mapped links, which may be given none). Until it has arrived, every call must give the
  // same arguments: a put link may already have stored a part.
  virtual Result<Arrival> receive(std::span<const MutablePiece> into, size_t bytes, const Stamp& stamp) = 0;
  // Ends the use of the message that arrived; exactly once per arrival, and before the next is asked for.
  virtual void release() = 0;
  // Mapped. The first message of which this was not said yet, `bytes` long, may be written to `place` at once (null: it
  // may not); it then arrives with that address. To be said of a message before its predecessors are released, or not at
  // all. False: too far ahead; say it again when the message that has arrived is about to be released.
  virtual bool grant(std::byte* place, size_t bytes) {
    (void)place, (void)bytes;
    return true;
  }
};

// Creates the links of one rank, which must be destroyed before it. The addresses in set_peers() are what each rank's
// address() returned, carried to the others by the bootstrap.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  // Opaque bytes by which peers reach this rank. At most kMaxAddressBytes.
  virtual std::vector<std::byte> address() const = 0;
  static constexpr size_t kMaxAddressBytes = 1024;
  // The largest message that its links carry.
  virtual size_t max_message_bytes() const = 0;

  // The addresses of all ranks, once, before any link is opened. `addresses[r]` is empty where rank r does not offer
  // this transport; `descriptions[r]` ("rank 3 (host b, pid 71)") is for messages.
  virtual Status set_peers(std::vector<std::vector<std::byte>> addresses, std::vector<std::string> descriptions) = 0;
  // Empty when links to `peer` can be made, else the reason why not ("another host", ...).
  virtual std::string unreachable_reason(Rank peer) const = 0;

  // Each end is opened at most once per (peer, channel). channel < kMaxChannels.
  static constexpr uint16_t kMaxChannels = 64;
  virtual Result<std::unique_ptr<SendLink>> open_send(Rank peer, ChannelId channel) = 0;
  virtual Result<std::unique_ptr<RecvLink>> open_recv(Rank peer, ChannelId channel) = 0;

  // Moves bytes that are under way: connects, accepts, writes. Cheap when there is nothing to do.
  virtual Status progress() = 0;
  // All put messages have left this process (a mapped transport: always true).
  virtual bool drained() const = 0;

  // Waiting. prepare_wait() adds the descriptors whose events mean "ask again", and asks peers to signal this rank;
  // false when something has already happened meanwhile (do not block). finish_wait() undoes it and eats the signals.
  virtual bool prepare_wait(std::vector<pollfd>& descriptors) = 0;
  virtual void finish_wait() = 0;

  // A look at peers that may be gone without a trace (a dead process behind shared memory). Called now and then while
  // nothing moves.
  virtual Status check_peers() = 0;
};

// What every transport is made from.
struct TransportContext {
  Config config;
  std::vector<std::byte> key;  // 32 bytes known to the ranks of this communicator only
  Rank self;
  Rank nranks{1};
};

}  // namespace tutti
