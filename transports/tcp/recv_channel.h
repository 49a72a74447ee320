// RecvChannel: what comes from one source on one channel, and the message that is being received from it.
//
// Made by whichever comes first, a connection or the request to open the link, and kept by the transport. One thread at
// a time.
//
// Each stripe reads from one connection at a time: the one that the source made for its sending, or the one that this
// rank made for its own, on which the source answers (see Hello::Kind). Every read takes what fits of the current
// payload, straight into the caller's memory, and a little beyond it into a buffer of the stripe: the next header, with
// the next message if that is small. So a message costs one system call or less, and nothing is stored in the caller's
// memory before its header has been checked.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transports/tcp/connection.h"
#include "transports/tcp/wire.h"
#include "transports/transport.h"

namespace tutti::tcp {

// What an answer must prove.
struct AnswerProof {
  Rank source, self;
  ChannelId channel;
  std::span<const std::byte> key;
  const Cookie& cookie;  // of the source's listener
};

class RecvChannel {
 public:
  RecvChannel(std::string source, const AnswerProof& proof) : source_(std::move(source)), proof_(proof) {}

  // Takes a connection that the source made; false when it does not fit to those that came before (a stripe twice,
  // another number of them).
  bool add_called(uint16_t stripe, uint16_t stripes, std::shared_ptr<Connection> connection);
  // Takes a connection that this rank made, on which the source may answer.
  void add_made(uint16_t stripe, uint16_t stripes, std::shared_ptr<Connection> connection);
  // A connection that the source made for this stripe, while it is being read; or null.
  std::shared_ptr<Connection> called(uint16_t stripe) const;
  // Every stripe knows its connection.
  bool complete() const;

  Result<Arrival> receive(std::span<const MutablePiece> into, size_t bytes, const Stamp& stamp);

  // Descriptors that the last, unanswered receive() waits for.
  void add_awaited(std::vector<pollfd>& descriptors) const;
  void add_all(std::vector<pollfd>& descriptors) const;
  void check_broken();
  const Status& status() const { return status_; }

 private:
  static constexpr size_t kAheadBytes = 8192;
  // What a read takes beyond a payload too large to go through `ahead`: these bytes may have to be copied once more.
  static constexpr size_t kBeyondBytes = 1024;

  struct Stripe {
    std::shared_ptr<Connection> called, made;
    Connection* current = nullptr;  // one of the two
    bool moved = false;             // the source has left `called`
    HelloBytes answer;              // on `made`
    uint32_t looks_after_end = 0;  // at `made`, whose end came instead of an answer
    size_t answer_bytes = 0;
    std::optional<Hello::Kind> answer_kind;

    std::unique_ptr<std::array<std::byte, kAheadBytes>> ahead;
    size_t begin = 0, end = 0;  // what `ahead` holds
    FrameHeader header;
    size_t header_bytes = 0;   // got so far
    size_t payload_bytes = 0;  // of this stripe's part, got so far

    size_t buffered() const { return end - begin; }
    size_t take(std::byte* to, size_t bytes);
    bool has_header() const { return header_bytes == sizeof(FrameHeader); }
    // Where the next bytes come from; null while that is not known and nothing can come.
    Connection* awaited() const;
  };

  Stripe& stripe(uint16_t index, uint16_t stripes);
  bool find_connection(Stripe& stripe);
  bool read_answer(Stripe& stripe);
  bool read_header(Stripe& stripe, size_t expected_bytes);
  bool read_part(Stripe& stripe, uint8_t part, std::span<const MutablePiece> into, size_t bytes, const Stamp& stamp);
  void check_header(const Stripe& stripe, uint8_t part, size_t bytes, const Stamp& stamp);
  bool read_payload(Stripe& stripe, uint8_t part, std::span<const MutablePiece> into);
  // What a read returned: bytes, or 0 when nothing is there or the connection failed (then status_ says so).
  size_t outcome_of(const Stripe& stripe, Connection& connection, ssize_t got);
  std::string name(const Connection& connection) const;

  const std::string source_;  // "rank 2 (host b, pid 7)"
  const AnswerProof proof_;
  std::vector<Stripe> stripes_;
  bool awaited_ = false;
  uint8_t parts_ = 0;  // of the message that is coming; 0: its first header has not come
  size_t message_bytes_ = 0;
  Arrival mismatch_;  // sticky once its state says so
  Status status_;     // sticky
};

}  // namespace tutti::tcp
