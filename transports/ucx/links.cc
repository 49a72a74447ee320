#include "transports/ucx/links.h"

#include <cstring>

namespace tutti::ucx {
namespace {

constexpr uint64_t kWholeTag = ~uint64_t{0};

void gather(std::span<const ConstPiece> pieces, std::byte* to) {
  for (const ConstPiece& piece : pieces) {
    if (piece.bytes > 0) std::memcpy(to, piece.data, piece.bytes);
    to += piece.bytes;
  }
}

void scatter(const std::byte* from, std::span<const MutablePiece> pieces) {
  for (const MutablePiece& piece : pieces) {
    if (piece.bytes > 0) std::memcpy(piece.data, from, piece.bytes);
    from += piece.bytes;
  }
}

}  // namespace

// ---- sending

Outbox::Outbox(Worker& worker, PeerEnd& peer, Rank self, Rank to, ChannelId channel)
    : worker_(worker), peer_(peer), self_(self), to_(to), channel_(channel) {
  listen();
}

void Outbox::listen() {
  const ucp_request_param_t parameters = credit_.receive_parameters();
  credit_.started(ucp_tag_recv_nbx(worker_.get(), &told_, sizeof told_, tag_of(Kind::credit, to_, channel_), kWholeTag,
                                   &parameters));
}

void Outbox::take_credit() {
  while (!credit_.under_way() && !credit_.failed()) {
    released_ = told_;
    listen();
  }
}

void Outbox::settle() {
  for (Message& message : messages_) {
    if (!message.counted || message.under_way()) continue;
    message.counted = false;
    peer_.ended_sending();
    for (const Pending* sending : {&message.sending_frame, &message.sending_rest})
      if (sending->failed()) peer_.failed_sending(sending->status());
  }
}

bool Outbox::settled() const {
  for (const Message& message : messages_)
    if (message.under_way()) return false;
  return true;
}

Result<bool> Outbox::put(std::span<const ConstPiece> pieces, const Stamp& stamp) {
  if (!peer_.gone().ok()) return peer_.gone();
  take_credit();
  settle();
  Message& message = messages_[sent_ % kDepth];
  if (sent_ - released_ >= kDepth || message.under_way()) return false;
  const size_t bytes = total_bytes(pieces);
  const FrameHeader header{.tag = stamp.tag, .sequence = stamp.sequence, .bytes = bytes};
  const bool fits = bytes <= kInlineBytes;
  message.frame.resize(sizeof header + (fits ? bytes : 0));
  std::memcpy(message.frame.data(), &header, sizeof header);
  message.rest.resize(fits ? 0 : bytes);
  gather(pieces, fits ? message.frame.data() + sizeof header : message.rest.data());
  TUTTI_TRY(peer_.send(message.sending_frame, message.frame.data(), message.frame.size(),
                       tag_of(Kind::frame, self_, channel_)));
  if (!fits)
    TUTTI_TRY(peer_.send(message.sending_rest, message.rest.data(), bytes, tag_of(Kind::rest, self_, channel_)));
  ++sent_;
  message.counted = true;
  peer_.began_sending();
  settle();
  return true;
}

// ---- receiving

Inbox::Inbox(Worker& worker, PeerEnd& peer, Rank self, Rank from, ChannelId channel)
    : worker_(worker), peer_(peer), self_(self), from_(from), channel_(channel), memory_(kFrameBytes) {
  listen();
}

void Inbox::listen() {
  stage_ = Stage::frame;
  const ucp_request_param_t parameters = frame_.receive_parameters();
  frame_.started(ucp_tag_recv_nbx(worker_.get(), memory_.data(), memory_.size(), tag_of(Kind::frame, from_, channel_),
                                  kWholeTag, &parameters));
}

void Inbox::stop_listening() {
  frame_.cancel(worker_.get());
  rest_.cancel(worker_.get());
}

Result<Arrival> Inbox::receive(std::span<const MutablePiece> into, size_t bytes, const Stamp& stamp) {
  settle();
  if (stage_ == Stage::frame) {
    if (frame_.under_way()) return peer_.gone().ok() ? Result<Arrival>(Arrival{}) : peer_.gone();
    if (frame_.failed()) return ucx_error("receiving a message", frame_.status());
    std::memcpy(&header_, memory_.data(), sizeof header_);
    const Stamp came{.tag = header_.tag, .sequence = static_cast<uint32_t>(header_.sequence)};
    if (came != stamp || header_.bytes != bytes)
      return Arrival{.state = Arrival::State::mismatch, .stamp = came, .bytes = header_.bytes};
    if (bytes <= kInlineBytes) {
      scatter(memory_.data() + sizeof header_, into);
      return Arrival{.state = Arrival::State::arrived, .stamp = stamp, .bytes = bytes};
    }
    rest_memory_.resize(bytes);
    const ucp_request_param_t parameters = rest_.receive_parameters();
    rest_.started(ucp_tag_recv_nbx(worker_.get(), rest_memory_.data(), bytes, tag_of(Kind::rest, from_, channel_), kWholeTag,
                                   &parameters));
    stage_ = Stage::rest;
  }
  if (rest_.under_way()) return peer_.gone().ok() ? Result<Arrival>(Arrival{}) : peer_.gone();
  if (rest_.failed()) return peer_.gone().ok() ? ucx_error("receiving a message", rest_.status()) : peer_.gone();
  scatter(rest_memory_.data(), into);
  return Arrival{.state = Arrival::State::arrived, .stamp = stamp, .bytes = bytes};
}

void Inbox::release() {
  ++released_;
  listen();
  settle();
  if (released_ - told_ >= kReleasesPerCredit) send_credit();
}

void Inbox::settle() {
  if (!counted_ || crediting_.under_way()) return;
  counted_ = false;
  peer_.ended_sending();
  if (crediting_.failed()) peer_.failed_sending(crediting_.status());
}

void Inbox::send_credit() {
  if (crediting_.under_way()) return;  // the next one says more
  told_ = released_;
  // A peer that is gone needs none.
  if (!peer_.send(crediting_, &told_, sizeof told_, tag_of(Kind::credit, self_, channel_)).ok()) return;
  counted_ = true;
  peer_.began_sending();
  settle();
}

}  // namespace tutti::ucx
