// RecvChannel: the incoming connections of one (source, channel) and the message that is being received from them.
//
// Made by whichever comes first, the connection or the request to open the link, and kept by the transport. One thread
// at a time.
//
// A header is read by itself when the payload is large, and the payload then goes straight into the caller's memory.
// For a small message one read takes header, payload and whatever small messages follow into a buffer of the stripe, so
// that it costs one system call or less; nothing is stored in the caller's memory before the header has been checked.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "transports/tcp/wire.h"
#include "transports/transport.h"

namespace tutti::tcp {

class RecvChannel {
 public:
  explicit RecvChannel(std::string source) : source_(std::move(source)) {}

  // Takes a connection; false when it does not fit to those that came before (a stripe twice, another number of them).
  bool add(uint16_t stripe, uint16_t stripes, Fd fd, const std::string& from);
  // All stripes are there.
  bool complete() const { return !stripes_.empty() && arrived_stripes_ == stripes_.size(); }

  Result<Arrival> receive(std::span<const MutablePiece> into, size_t bytes, const Stamp& stamp);

  // Descriptors that the last, unanswered receive() waits for.
  void add_awaited(std::vector<pollfd>& descriptors) const;
  void add_all(std::vector<pollfd>& descriptors) const;
  void check_broken();
  const Status& status() const { return status_; }

 private:
  static constexpr size_t kReadAheadBytes = 2048;
  // Payloads up to this are read together with their header.
  static constexpr size_t kSmallBytes = 1024;

  struct Stripe {
    Fd fd;
    std::string from;
    std::unique_ptr<std::array<std::byte, kReadAheadBytes>> ahead;
    size_t begin = 0, end = 0;  // what `ahead` holds
    FrameHeader header;
    size_t header_bytes = 0;   // got so far
    size_t payload_bytes = 0;  // of this stripe's part, got so far

    size_t buffered() const { return end - begin; }
    size_t take(std::byte* to, size_t bytes);
  };

  bool read_header(Stripe& stripe, size_t expected_bytes);
  void check_header(const FrameHeader& header, uint8_t part, size_t bytes, const Stamp& stamp);
  bool read_payload(Stripe& stripe, uint8_t part, std::span<const MutablePiece> into);
  // What a read returned: bytes, or 0 when nothing is there or the connection failed (then status_ says so).
  size_t outcome_of(const Stripe& stripe, ssize_t got);
  std::string name(const Stripe& stripe) const;

  const std::string source_;  // "rank 2 (host b, pid 7)"
  std::vector<Stripe> stripes_;
  size_t arrived_stripes_ = 0;
  bool awaited_ = false;
  uint8_t parts_ = 0;  // of the message that is coming; 0: its first header has not come
  size_t message_bytes_ = 0;
  Arrival mismatch_;  // sticky once its state says so
  Status status_;     // sticky
};

}  // namespace tutti::tcp
