#include "transports/tcp/links.h"

#include <algorithm>

#include "transports/tcp/tcp_transport.h"

namespace tutti::tcp {

TcpSendLink::~TcpSendLink() { transport_.retire(std::move(stripes_)); }

Status TcpSendLink::connect() {
  for (const auto& stripe : stripes_) TUTTI_TRY(transport_.advance(*stripe));
  return Status::success();
}

Result<Room> TcpSendLink::claim(size_t) {
  return fail(tuttiInternalError, "claim() on a tcp link, which is not mapped");
}

void TcpSendLink::post(size_t, const Stamp&) {}

Result<bool> TcpSendLink::put(std::span<const ConstPiece> pieces, const Stamp& stamp) {
  const size_t bytes = total_bytes(pieces);
  if (bytes > TcpTransport::kMaxMessageBytes) {
    return invalid_argument("a tcp message of {} bytes; the most is {}", bytes, TcpTransport::kMaxMessageBytes);
  }
  for (const auto& stripe : stripes_) TUTTI_TRY(stripe->status());
  const bool striped = parts_ > 1 && bytes >= transport_.options().stripe_threshold_bytes;
  const auto parts = static_cast<uint8_t>(striped ? parts_ : 1);
  for (uint8_t part = 0; part < parts; ++part) {
    SendStripe& stripe = *stripes_[part];
    if (!stripe.room()) TUTTI_TRY(transport_.advance(stripe));
    if (!stripe.room()) return false;
  }
  FrameHeader header{.message_bytes = bytes, .tag = stamp.tag, .sequence = stamp.sequence, .parts = parts};
  if (bytes <= SendStripe::kSmallBytes && parts == 1 && stripes_[0]->send_small(header, pieces, bytes)) {
    ++put_;
    TUTTI_TRY(transport_.advance(*stripes_[0]));
    return true;
  }
  for (uint8_t part = 0; part < parts; ++part) {
    SendStripe& stripe = *stripes_[part];
    const PartRange range = part_range(bytes, part, parts);
    header.part = part;
    stripe.push(header, pieces, range.offset, range.bytes, put_);
  }
  ++put_;
  for (uint8_t part = 0; part < parts; ++part) {
    TUTTI_TRY(transport_.advance(*stripes_[part]));
    stripes_[part]->detach(SendStripe::kSmallBytes);
  }
  return true;
}

uint64_t TcpSendLink::retired() {
  uint64_t retired = put_;
  for (const auto& stripe : stripes_) retired = std::min(retired, stripe->first_borrowed(put_));
  return retired;
}

void TcpSendLink::detach() {
  for (const auto& stripe : stripes_) stripe->detach();
}

TcpRecvLink::~TcpRecvLink() { transport_.close_recv(source_, channel_id_); }

}  // namespace tutti::tcp
