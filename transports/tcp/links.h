// The two kinds of link of the tcp transport, as its users see them.
#pragma once

#include <memory>
#include <vector>

#include "transports/tcp/recv_channel.h"
#include "transports/tcp/send_stripe.h"
#include "transports/transport.h"

namespace tutti::tcp {

class TcpTransport;

class TcpSendLink final : public SendLink {
 public:
  // Large messages are cut into as many parts, for the first stripes.
  TcpSendLink(TcpTransport& transport, std::vector<std::unique_ptr<SendStripe>> stripes, size_t parts)
      : transport_(transport), stripes_(std::move(stripes)), parts_(parts) {}
  ~TcpSendLink() override;
  TcpSendLink(const TcpSendLink&) = delete;
  TcpSendLink& operator=(const TcpSendLink&) = delete;

  // Begins to connect. Errors: those of a connection that cannot even be tried.
  Status connect();

  bool mapped() const override { return false; }
  Result<Room> claim(size_t bytes) override;
  void post(size_t bytes, const Stamp& stamp) override;
  Result<bool> put(std::span<const ConstPiece> pieces, const Stamp& stamp) override;
  uint64_t retired() override;
  void detach() override;

 private:
  TcpTransport& transport_;
  std::vector<std::unique_ptr<SendStripe>> stripes_;
  const size_t parts_;
  uint64_t put_ = 0;  // messages taken
};

class TcpRecvLink final : public RecvLink {
 public:
  TcpRecvLink(TcpTransport& transport, RecvChannel& channel, Rank source, ChannelId channel_id)
      : transport_(transport), channel_(channel), source_(source), channel_id_(channel_id) {}
  ~TcpRecvLink() override;
  TcpRecvLink(const TcpRecvLink&) = delete;
  TcpRecvLink& operator=(const TcpRecvLink&) = delete;

  bool mapped() const override { return false; }
  Result<Arrival> receive(std::span<const MutablePiece> into, size_t bytes, const Stamp& stamp) override {
    return channel_.receive(into, bytes, stamp);
  }
  void release() override {}  // what arrived lies in the caller's memory

 private:
  TcpTransport& transport_;
  RecvChannel& channel_;
  const Rank source_;
  const ChannelId channel_id_;
};

}  // namespace tutti::tcp
