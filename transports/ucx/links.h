// The two ends of a link. What must outlive a link that is destroyed early (UCX has its memory) is an Outbox or an Inbox,
// which the transport keeps until UCX has finished with it.
#pragma once

#include <array>
#include <vector>

#include "transports/ucx/frames.h"
#include "transports/ucx/peer.h"

namespace tutti::ucx {

class Outbox {
 public:
  Outbox(Worker& worker, PeerEnd& peer, Rank self, Rank to, ChannelId channel);
  // False while kDepth messages are unreleased, or UCX still has the memory of the one kDepth before.
  Result<bool> put(std::span<const ConstPiece> pieces, const Stamp& stamp);
  uint64_t sent() const { return sent_; }
  // Counts what UCX has finished with.
  void settle();
  bool settled() const;
  void stop_listening() { credit_.cancel(worker_.get()); }

 private:
  struct Message {
    std::vector<std::byte> frame, rest;
    Pending sending_frame, sending_rest;
    bool counted = false;  // by the peer's end as being sent
    bool under_way() const { return sending_frame.under_way() || sending_rest.under_way(); }
  };
  void listen();
  void take_credit();

  Worker& worker_;
  PeerEnd& peer_;
  const Rank self_, to_;
  const ChannelId channel_;
  std::array<Message, kDepth> messages_;
  uint64_t sent_ = 0, released_ = 0;
  uint64_t told_ = 0;  // where the next credit lands
  Pending credit_;
};

class Inbox {
 public:
  Inbox(Worker& worker, PeerEnd& peer, Rank self, Rank from, ChannelId channel);
  Result<Arrival> receive(std::span<const MutablePiece> into, size_t bytes, const Stamp& stamp);
  void release();
  void settle();
  bool settled() const { return !crediting_.under_way() && !frame_.under_way() && !rest_.under_way(); }
  void stop_listening();

 private:
  enum class Stage : uint8_t { frame, rest };
  void listen();
  void send_credit();

  Worker& worker_;
  PeerEnd& peer_;
  const Rank self_, from_;
  const ChannelId channel_;
  Stage stage_ = Stage::frame;
  std::vector<std::byte> memory_, rest_memory_;  // of the frame, and of what does not fit it
  FrameHeader header_{};
  Pending frame_, rest_, crediting_;
  uint64_t released_ = 0, told_ = 0;
  bool counted_ = false;  // the credit, by the peer's end
};

class UcxSendLink final : public SendLink {
 public:
  explicit UcxSendLink(std::shared_ptr<Outbox> box) : box_(std::move(box)) {}
  bool mapped() const override { return false; }
  Result<Room> claim(size_t) override { return fail(tuttiInternalError, "claim() on a put link of the ucx transport"); }
  void post(size_t, const Stamp&) override {}
  Result<bool> put(std::span<const ConstPiece> pieces, const Stamp& stamp) override { return box_->put(pieces, stamp); }
  uint64_t retired() override { return box_->sent(); }
  void detach() override {}

 private:
  std::shared_ptr<Outbox> box_;
};

class UcxRecvLink final : public RecvLink {
 public:
  explicit UcxRecvLink(std::shared_ptr<Inbox> box) : box_(std::move(box)) {}
  bool mapped() const override { return false; }
  Result<Arrival> receive(std::span<const MutablePiece> into, size_t bytes, const Stamp& stamp) override {
    return box_->receive(into, bytes, stamp);
  }
  void release() override { box_->release(); }

 private:
  std::shared_ptr<Inbox> box_;
};

}  // namespace tutti::ucx
