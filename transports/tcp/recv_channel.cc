#include "transports/tcp/recv_channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transports/tcp/sockets.h"

namespace tutti::tcp {
namespace {

constexpr size_t kMaxScatter = 64;
// As on the sending side: one call moves at most this, so that one link does not keep the others waiting.
constexpr size_t kMaxReadBytes = 1024 * 1024;

// The bytes [offset, offset + bytes) of the pieces, as far as they fit into `out`. Returns the number of entries.
size_t slice(std::span<const MutablePiece> pieces, size_t offset, size_t bytes, std::array<iovec, kMaxScatter>& out) {
  size_t entries = 0;
  for (const MutablePiece& piece : pieces) {
    if (bytes == 0 || entries == out.size()) break;
    if (offset >= piece.bytes) {
      offset -= piece.bytes;
      continue;
    }
    const size_t take = std::min(bytes, piece.bytes - offset);
    out[entries++] = {piece.data + offset, take};
    offset = 0;
    bytes -= take;
  }
  return entries;
}

}  // namespace

size_t RecvChannel::Stripe::take(std::byte* to, size_t bytes) {
  const size_t taken = std::min(bytes, buffered());
  if (taken == 0) return 0;
  std::memcpy(to, ahead->data() + begin, taken);
  begin += taken;
  return taken;
}

bool RecvChannel::add(uint16_t stripe, uint16_t stripes, Fd fd, const std::string& from) {
  if (stripes_.empty()) stripes_.resize(stripes);
  if (stripes_.size() != stripes || stripes_[stripe].fd) return false;
  stripes_[stripe].fd = std::move(fd);
  stripes_[stripe].from = from;
  ++arrived_stripes_;
  return true;
}

Result<Arrival> RecvChannel::receive(std::span<const MutablePiece> into, size_t bytes, const Stamp& stamp) {
  if (!status_.ok()) return status_;
  if (mismatch_.state == Arrival::State::mismatch) return mismatch_;
  awaited_ = true;
  if (stripes_.empty() || !stripes_[0].fd) return Arrival{};
  if (parts_ == 0) {
    if (!read_header(stripes_[0], bytes)) return status_.ok() ? Result<Arrival>(Arrival{}) : status_;
    check_header(stripes_[0].header, 0, bytes, stamp);
    if (!status_.ok()) return status_;
    if (mismatch_.state == Arrival::State::mismatch) return mismatch_;
    parts_ = stripes_[0].header.parts;
    message_bytes_ = bytes;
  }
  bool all = true;
  for (uint8_t part = 0; part < parts_; ++part) {
    Stripe& stripe = stripes_[part];
    if (!stripe.fd) {
      all = false;
      continue;
    }
    const bool had_header = stripe.header_bytes == sizeof(FrameHeader);
    bool whole = had_header || read_header(stripe, SIZE_MAX);
    if (whole && !had_header) check_header(stripe.header, part, bytes, stamp);
    whole = whole && status_.ok() && read_payload(stripe, part, into);
    if (!status_.ok()) return status_;
    all = all && whole;
  }
  if (!all) return Arrival{};
  for (uint8_t part = 0; part < parts_; ++part) stripes_[part].header_bytes = stripes_[part].payload_bytes = 0;
  parts_ = 0;
  awaited_ = false;
  return Arrival{.state = Arrival::State::arrived};
}

bool RecvChannel::read_header(Stripe& stripe, size_t expected_bytes) {
  auto* const header = reinterpret_cast<std::byte*>(&stripe.header);
  stripe.header_bytes += stripe.take(header + stripe.header_bytes, sizeof(FrameHeader) - stripe.header_bytes);
  if (stripe.header_bytes == sizeof(FrameHeader)) return true;
  if (expected_bytes <= kSmallBytes) {
    if (!stripe.ahead) stripe.ahead = std::make_unique<std::array<std::byte, kReadAheadBytes>>();
    stripe.begin = 0;
    stripe.end = outcome_of(stripe, ::recv(stripe.fd.get(), stripe.ahead->data(), kReadAheadBytes, MSG_DONTWAIT));
    stripe.header_bytes += stripe.take(header + stripe.header_bytes, sizeof(FrameHeader) - stripe.header_bytes);
  } else {
    stripe.header_bytes += outcome_of(stripe, ::recv(stripe.fd.get(), header + stripe.header_bytes,
                                                     sizeof(FrameHeader) - stripe.header_bytes, MSG_DONTWAIT));
  }
  return stripe.header_bytes == sizeof(FrameHeader);
}

void RecvChannel::check_header(const FrameHeader& header, uint8_t part, size_t bytes, const Stamp& stamp) {
  if (header.magic != FrameHeader::kFrameMagic || header.part != part || header.parts == 0 ||
      header.parts > stripes_.size() || (part > 0 && (header.parts != parts_ || header.message_bytes != bytes))) {
    status_ = fail(tuttiInternalError,
                   "{}: bytes that are no message header where one should be (magic {:#x}, part {} "
                   "of {}); please report it",
                   name(stripes_[part]), header.magic, header.part, header.parts);
    return;
  }
  const Stamp came{header.tag, header.sequence};
  if (came == stamp && header.message_bytes == bytes) return;
  mismatch_ = {.state = Arrival::State::mismatch, .stamp = came, .bytes = header.message_bytes};
}

bool RecvChannel::read_payload(Stripe& stripe, uint8_t part, std::span<const MutablePiece> into) {
  const PartRange range = part_range(message_bytes_, part, parts_);
  std::array<iovec, kMaxScatter> scatter;
  // From the buffer first, then from the socket; what is left after one read is left for the next call.
  while (stripe.payload_bytes < range.bytes) {
    const size_t wanted = std::min(range.bytes - stripe.payload_bytes, kMaxReadBytes);
    const size_t entries = slice(into, range.offset + stripe.payload_bytes, wanted, scatter);
    if (stripe.buffered() > 0) {
      for (size_t i = 0; i < entries; ++i) {
        stripe.payload_bytes += stripe.take(static_cast<std::byte*>(scatter[i].iov_base), scatter[i].iov_len);
      }
      continue;
    }
    stripe.payload_bytes += outcome_of(stripe, ::readv(stripe.fd.get(), scatter.data(), static_cast<int>(entries)));
    break;
  }
  return stripe.payload_bytes == range.bytes;
}

size_t RecvChannel::outcome_of(const Stripe& stripe, ssize_t got) {
  if (got > 0) return static_cast<size_t>(got);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (got < 0) {
    status_ = connection_error(name(stripe), "read", errno);
  } else if (stripe.header_bytes > 0) {
    status_ = fail(tuttiRemoteError,
                   "{} closed in the middle of a message, {} bytes into it; the process has exited or "
                   "was killed, and its output says why",
                   name(stripe), stripe.header_bytes + stripe.payload_bytes);
  } else {
    status_ = fail(tuttiRemoteError, "{} closed; the process has exited or was killed, and its output says why",
                   name(stripe));
  }
  return 0;
}

void RecvChannel::add_awaited(std::vector<pollfd>& descriptors) const {
  if (!awaited_) return;
  for (size_t i = 0; i < stripes_.size() && i < std::max<size_t>(parts_, 1); ++i) {
    // Ready stripes of a message whose other parts are still coming must not keep the wait from sleeping.
    const Stripe& stripe = stripes_[i];
    const bool whole = parts_ > 0 && stripe.header_bytes == sizeof(FrameHeader) &&
                       stripe.payload_bytes == part_range(message_bytes_, static_cast<uint8_t>(i), parts_).bytes;
    if (stripe.fd && !whole) descriptors.push_back({.fd = stripe.fd.get(), .events = POLLIN});
  }
}

void RecvChannel::add_all(std::vector<pollfd>& descriptors) const {
  for (const Stripe& stripe : stripes_) {
    if (stripe.fd) descriptors.push_back({.fd = stripe.fd.get()});
  }
}

void RecvChannel::check_broken() {
  for (const Stripe& stripe : stripes_) {
    if (!stripe.fd || !status_.ok()) continue;
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(stripe.fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) status_ = connection_error(name(stripe), "the connection broke", error);
  }
}

std::string RecvChannel::name(const Stripe& stripe) const {
  return fmt::format("connection from {} at {}", source_, stripe.from);
}

}  // namespace tutti::tcp
