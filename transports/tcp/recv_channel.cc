#include "transports/tcp/recv_channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transports/tcp/sockets.h"

namespace tutti::tcp {
namespace {

constexpr size_t kMaxScatter = 64;
// As on the sending side: one call moves at most this, so that one link does not keep the others waiting.
constexpr size_t kMaxReadBytes = 1024 * 1024;
// How often the listener is asked, before each of them, for the connection that the peer may have made instead.
constexpr uint32_t kLooksAfterEnd = 64;

// The bytes [offset, offset + bytes) of the pieces, as far as they fit into kMaxScatter entries of `out`. Returns the
// number of entries; `room` is theirs in bytes.
size_t slice(std::span<const MutablePiece> pieces, size_t offset, size_t bytes, std::array<iovec, kMaxScatter + 1>& out,
             size_t& room) {
  size_t entries = 0;
  for (const MutablePiece& piece : pieces) {
    if (bytes == 0 || entries == kMaxScatter) break;
    if (offset >= piece.bytes) {
      offset -= piece.bytes;
      continue;
    }
    const size_t take = std::min(bytes, piece.bytes - offset);
    out[entries++] = {piece.data + offset, take};
    room += take;
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

RecvChannel::Stripe& RecvChannel::stripe(uint16_t index, uint16_t stripes) {
  if (stripes_.empty()) stripes_.resize(stripes);
  return stripes_[index];
}

bool RecvChannel::add_called(uint16_t index, uint16_t stripes, std::shared_ptr<Connection> connection) {
  if (!stripes_.empty() && stripes_.size() != stripes) return false;
  Stripe& added = stripe(index, stripes);
  if (added.called || added.moved || added.current) return false;
  added.called = std::move(connection);
  added.current = added.called.get();
  return true;
}

void RecvChannel::add_made(uint16_t index, uint16_t stripes, std::shared_ptr<Connection> connection) {
  stripe(index, stripes).made = std::move(connection);
}

std::shared_ptr<Connection> RecvChannel::called(uint16_t index) const {
  return index < stripes_.size() ? stripes_[index].called : nullptr;
}

bool RecvChannel::complete() const {
  return !stripes_.empty() &&
         std::all_of(stripes_.begin(), stripes_.end(), [](const Stripe& each) { return each.current || each.moved; });
}

Result<Arrival> RecvChannel::receive(std::span<const MutablePiece> into, size_t bytes, const Stamp& stamp) {
  if (!status_.ok()) return status_;
  if (mismatch_.state == Arrival::State::mismatch) return mismatch_;
  awaited_ = true;
  if (stripes_.empty()) return Arrival{};
  // The first stripe's header says how many parts there are.
  bool all = read_part(stripes_[0], 0, into, bytes, stamp);
  for (uint8_t part = 1; part < parts_; ++part) all = read_part(stripes_[part], part, into, bytes, stamp) && all;
  if (!status_.ok()) return status_;
  if (mismatch_.state == Arrival::State::mismatch) return mismatch_;
  if (!all) return Arrival{};
  for (uint8_t part = 0; part < parts_; ++part) stripes_[part].header_bytes = stripes_[part].payload_bytes = 0;
  parts_ = 0;
  awaited_ = false;
  return Arrival{.state = Arrival::State::arrived};
}

bool RecvChannel::read_part(Stripe& stripe, uint8_t part, std::span<const MutablePiece> into, size_t bytes,
                            const Stamp& stamp) {
  if (!stripe.has_header()) {
    for (;;) {
      if (!find_connection(stripe) || !read_header(stripe, bytes)) return false;
      if (stripe.header.magic != FrameHeader::kMoveMagic || stripe.current != stripe.called.get()) break;
      stripe.called.reset();
      stripe.current = nullptr;
      stripe.moved = true;
      stripe.header_bytes = 0;
    }
    check_header(stripe, part, bytes, stamp);
    if (!status_.ok() || mismatch_.state == Arrival::State::mismatch) return false;
    if (part == 0) {
      parts_ = stripe.header.parts;
      message_bytes_ = bytes;
    }
  }
  return read_payload(stripe, part, into);
}

Connection* RecvChannel::Stripe::awaited() const {
  if (current) return current;
  // An answer after a move is of no use before the connection that it moved from has come.
  if (answer_kind == Hello::Kind::answer_after_move && !moved) return nullptr;
  return made.get();
}

bool RecvChannel::find_connection(Stripe& stripe) {
  if (stripe.current) return true;
  if (!stripe.made || (!stripe.answer_kind && !read_answer(stripe))) return false;
  // Each kind of answer without the other's move would mean frames out of order.
  if (stripe.moved != (stripe.answer_kind == Hello::Kind::answer_after_move)) return false;
  stripe.current = stripe.made.get();
  return true;
}

bool RecvChannel::read_answer(Stripe& stripe) {
  Connection& made = *stripe.made;
  const ssize_t got = ::recv(made.fd(), stripe.answer.data() + stripe.answer_bytes, kHelloBytes - stripe.answer_bytes,
                             MSG_DONTWAIT);
  // A peer that sends on a connection of its own may have sent all and left while that one still waits at our listener.
  if (got == 0 && stripe.looks_after_end++ < kLooksAfterEnd) return false;
  stripe.answer_bytes += outcome_of(stripe, made, got);
  if (!status_.ok() || stripe.answer_bytes < kHelloBytes) return false;
  const Hello expected{proof_.source, proof_.self, proof_.channel, static_cast<uint16_t>(&stripe - stripes_.data()),
                       static_cast<uint16_t>(stripes_.size())};
  std::optional<Hello> answer = decode_hello(stripe.answer, proof_.key, proof_.cookie);
  const Hello::Kind kind = answer ? std::exchange(answer->kind, Hello::Kind::call) : Hello::Kind::call;
  if (answer != expected || kind == Hello::Kind::call) {
    status_ = fail(tuttiRemoteError,
                   "{} does not prove the communicator's key; another program listens at that address now", name(made));
    return false;
  }
  stripe.answer_kind = kind;
  return true;
}

bool RecvChannel::read_header(Stripe& stripe, size_t expected_bytes) {
  auto* const header = reinterpret_cast<std::byte*>(&stripe.header);
  stripe.header_bytes += stripe.take(header + stripe.header_bytes, sizeof(FrameHeader) - stripe.header_bytes);
  if (stripe.has_header()) return true;
  if (!stripe.ahead) stripe.ahead = std::make_unique<std::array<std::byte, kAheadBytes>>();
  const bool fits = expected_bytes <= kAheadBytes - sizeof(FrameHeader);
  stripe.begin = 0;
  stripe.end = outcome_of(stripe, *stripe.current,
                          ::recv(stripe.current->fd(), stripe.ahead->data(), fits ? kAheadBytes : kBeyondBytes,
                                 MSG_DONTWAIT));
  stripe.header_bytes += stripe.take(header + stripe.header_bytes, sizeof(FrameHeader) - stripe.header_bytes);
  return stripe.has_header();
}

void RecvChannel::check_header(const Stripe& stripe, uint8_t part, size_t bytes, const Stamp& stamp) {
  const FrameHeader& header = stripe.header;
  if (header.magic != FrameHeader::kFrameMagic || header.part != part || header.parts == 0 ||
      header.parts > stripes_.size() || (part > 0 && (header.parts != parts_ || header.message_bytes != bytes))) {
    status_ = fail(tuttiInternalError,
                   "{}: bytes that are no message header where one should be (magic {:#x}, part {} "
                   "of {}); please report it",
                   name(*stripe.current), header.magic, header.part, header.parts);
    return;
  }
  const Stamp came{header.tag, header.sequence};
  if (came == stamp && header.message_bytes == bytes) return;
  mismatch_ = {.state = Arrival::State::mismatch, .stamp = came, .bytes = header.message_bytes};
}

bool RecvChannel::read_payload(Stripe& stripe, uint8_t part, std::span<const MutablePiece> into) {
  const PartRange range = part_range(message_bytes_, part, parts_);
  std::array<iovec, kMaxScatter + 1> scatter;
  // From the buffer first, then from the socket; what is left after one read is left for the next call.
  while (stripe.payload_bytes < range.bytes) {
    const size_t left = range.bytes - stripe.payload_bytes;
    size_t room = 0;
    size_t entries = slice(into, range.offset + stripe.payload_bytes, std::min(left, kMaxReadBytes), scatter, room);
    if (stripe.buffered() > 0) {
      for (size_t i = 0; i < entries; ++i) {
        stripe.payload_bytes += stripe.take(static_cast<std::byte*>(scatter[i].iov_base), scatter[i].iov_len);
      }
      continue;
    }
    if (room == left) scatter[entries++] = {stripe.ahead->data(), left <= kAheadBytes ? kAheadBytes : kBeyondBytes};
    const size_t got = outcome_of(stripe, *stripe.current,
                                  ::readv(stripe.current->fd(), scatter.data(), static_cast<int>(entries)));
    stripe.payload_bytes += std::min(got, room);
    stripe.begin = 0;
    stripe.end = got - std::min(got, room);
    break;
  }
  return stripe.payload_bytes == range.bytes;
}

size_t RecvChannel::outcome_of(const Stripe& stripe, Connection& connection, ssize_t got) {
  if (got > 0) return static_cast<size_t>(got);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (got < 0) {
    status_ = connection_error(name(connection), "read", errno);
  } else if (const int error = connection.error(); error != 0) {
    status_ = connection_error(name(connection), "the connection broke", error);
  } else if (stripe.header_bytes > 0) {
    status_ = fail(tuttiRemoteError,
                   "{} closed in the middle of a message, {} bytes into it; the process has exited or "
                   "was killed, and its output says why",
                   name(connection), stripe.header_bytes + stripe.payload_bytes);
  } else {
    status_ = fail(tuttiRemoteError, "{} closed; the process has exited or was killed, and its output says why",
                   name(connection));
  }
  return 0;
}

void RecvChannel::add_awaited(std::vector<pollfd>& descriptors) const {
  if (!awaited_) return;
  for (size_t i = 0; i < stripes_.size() && i < std::max<size_t>(parts_, 1); ++i) {
    // Ready stripes of a message whose other parts are still coming must not keep the wait from sleeping.
    const Stripe& stripe = stripes_[i];
    const bool whole = parts_ > 0 && stripe.has_header() &&
                       stripe.payload_bytes == part_range(message_bytes_, static_cast<uint8_t>(i), parts_).bytes;
    const Connection* const connection = stripe.awaited();
    if (connection && !whole) descriptors.push_back({.fd = connection->fd(), .events = POLLIN});
  }
}

void RecvChannel::add_all(std::vector<pollfd>& descriptors) const {
  for (const Stripe& stripe : stripes_) {
    if (stripe.current) descriptors.push_back({.fd = stripe.current->fd()});
  }
}

void RecvChannel::check_broken() {
  for (const Stripe& stripe : stripes_) {
    if (!stripe.current || !status_.ok()) continue;
    const int error = stripe.current->error();
    if (error != 0) status_ = connection_error(name(*stripe.current), "the connection broke", error);
  }
}

std::string RecvChannel::name(const Connection& connection) const {
  return fmt::format("connection from {} at {}", source_, connection.at());
}

}  // namespace tutti::tcp
