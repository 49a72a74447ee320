// Sender and Receiver: a link's two ends as a careful engine would use them, whether mapped or put.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "transports/transport.h"

namespace tutti::conformance {

using Bytes = std::vector<std::byte>;

// `bytes` bytes that differ from those of every other seed.
Bytes payload(uint64_t seed, size_t bytes);
inline Stamp stamp(uint32_t sequence = 1, uint64_t tag = 0xabcdef) { return {.tag = tag, .sequence = sequence}; }

// Keeps what was put until it is retired, then scribbles over it, so that a transport which says so too early is
// caught.
class Sender {
 public:
  explicit Sender(std::unique_ptr<SendLink> link) : link_(std::move(link)) {}

  // One try to send; false when there was no credit. `cuts` are where the message is cut into pieces (put links).
  Result<bool> try_send(const Bytes& message, const Stamp& stamp, const std::vector<size_t>& cuts = {});
  // Forgets that memory must stay: detach(), then scribble over everything.
  void detach();
  void scribble_over_retired();
  SendLink& link() { return *link_; }
  uint64_t sent() const { return sent_; }
  void close() { link_.reset(); }

 private:
  std::unique_ptr<SendLink> link_;
  std::deque<Bytes> kept_;
  uint64_t sent_ = 0, scribbled_ = 0;
};

// Receives into pieces with guard bytes around each.
class Receiver {
 public:
  explicit Receiver(std::unique_ptr<RecvLink> link) : link_(std::move(link)) {}

  // One try to receive the next message; repeated tries must be for the same. Null: pending. A mismatch is left in
  // last(), with an empty message returned.
  Result<std::optional<Bytes>> try_receive(size_t bytes, const Stamp& stamp, const std::vector<size_t>& cuts = {});
  const Arrival& last() const { return last_; }
  // All guard bytes of the last message were left alone.
  bool guards_intact() const { return guards_intact_; }
  RecvLink& link() { return *link_; }
  void close() { link_.reset(); }

 private:
  void lay_out(size_t bytes, const std::vector<size_t>& cuts);
  Bytes collect();

  std::unique_ptr<RecvLink> link_;
  Arrival last_;
  Bytes room_;
  std::vector<MutablePiece> pieces_;
  bool laid_out_ = false, guards_intact_ = true;
};

}  // namespace tutti::conformance
