#include "transports/self/self.h"

#include <algorithm>
#include <array>
#include <bit>
#include <new>

namespace tutti {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallestRoom = 256;

struct FreeAligned {
  void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{kAlignment}); }
};

struct Slot {
  std::unique_ptr<std::byte, FreeAligned> room;
  size_t capacity = 0;
  size_t bytes = 0;
  Stamp stamp;

  // False when there is no memory for it.
  bool reserve(size_t wanted) {
    if (wanted <= capacity && room) return true;
    // Powers of two: a FIFO whose messages grow slowly reallocates a few times, not at every message.
    const size_t rounded = std::bit_ceil(std::max(wanted, kSmallestRoom));
    auto* grown = static_cast<std::byte*>(::operator new (rounded, std::align_val_t{kAlignment}, std::nothrow));
    if (!grown) return false;
    room.reset(grown);
    capacity = rounded;
    return true;
  }
};

struct Fifo {
  std::array<Slot, kSelfDepth> slots;
  uint64_t posted = 0, consumed = 0;
  bool sender_waits = false, receiver_waits = false;  // the end's last try found nothing to do
  bool sender_open = false, receiver_open = false;

  bool full() const { return posted - consumed == kSelfDepth; }
  bool empty() const { return posted == consumed; }
  Slot& head() { return slots[posted % kSelfDepth]; }
  Slot& tail() { return slots[consumed % kSelfDepth]; }
};

Status put_on_mapped() { return fail(tuttiInternalError, "put() on a mapped link of the self transport; use claim()"); }

class SelfSendLink final : public SendLink {
 public:
  SelfSendLink(std::shared_ptr<Fifo> fifo, size_t max_bytes) : fifo_(std::move(fifo)), max_bytes_(max_bytes) {}
  bool mapped() const override { return true; }

  Result<Room> claim(size_t bytes) override {
    if (bytes > max_bytes_)
      return fail(tuttiInternalError, "a message of {} bytes to oneself exceeds the limit of {}", bytes, max_bytes_);
    fifo_->sender_waits = fifo_->full();
    if (fifo_->full()) return Room{};
    if (!fifo_->head().reserve(bytes))
      return fail(tuttiSystemError, "out of memory for a message of {} bytes to oneself; try a smaller TUTTI_TILE",
                  bytes);
    return Room{fifo_->head().room.get()};
  }
  void post(size_t bytes, const Stamp& stamp) override {
    fifo_->head().bytes = bytes;
    fifo_->head().stamp = stamp;
    ++fifo_->posted;
  }

  Result<bool> put(std::span<const ConstPiece>, const Stamp&) override { return put_on_mapped(); }
  uint64_t retired() override { return 0; }
  void detach() override {}

 private:
  std::shared_ptr<Fifo> fifo_;
  size_t max_bytes_;
};

class SelfRecvLink final : public RecvLink {
 public:
  explicit SelfRecvLink(std::shared_ptr<Fifo> fifo) : fifo_(std::move(fifo)) {}
  bool mapped() const override { return true; }

  Result<Arrival> receive(std::span<const MutablePiece>, size_t bytes, const Stamp& stamp) override {
    fifo_->receiver_waits = fifo_->empty();
    if (fifo_->empty()) return Arrival{};
    const Slot& slot = fifo_->tail();
    if (slot.bytes != bytes || slot.stamp != stamp)
      return Arrival{.state = Arrival::State::mismatch, .stamp = slot.stamp, .bytes = slot.bytes};
    return Arrival{.state = Arrival::State::arrived, .data = slot.room.get(), .stamp = stamp, .bytes = bytes};
  }
  void release() override { ++fifo_->consumed; }

 private:
  std::shared_ptr<Fifo> fifo_;
};

class SelfTransport final : public Transport {
 public:
  explicit SelfTransport(const TransportContext& context)
      : self_(context.self), max_bytes_(std::max<size_t>(size_t{1} << 20, context.config.tile_bytes.value_or(0))) {}

  std::string_view name() const override { return "self"; }
  std::vector<std::byte> address() const override { return {std::byte{1}}; }
  size_t max_message_bytes() const override { return max_bytes_; }
  Status set_peers(std::vector<std::vector<std::byte>>, std::vector<std::string>) override { return {}; }
  std::string unreachable_reason(Rank peer) const override {
    return peer == self_ ? "" : "the self transport reaches only the rank itself";
  }

  Result<std::unique_ptr<SendLink>> open_send(Rank peer, ChannelId channel) override {
    TUTTI_TRY_ASSIGN(auto fifo, open(peer, channel, &Fifo::sender_open));
    return std::unique_ptr<SendLink>(std::make_unique<SelfSendLink>(std::move(fifo), max_bytes_));
  }
  Result<std::unique_ptr<RecvLink>> open_recv(Rank peer, ChannelId channel) override {
    TUTTI_TRY_ASSIGN(auto fifo, open(peer, channel, &Fifo::receiver_open));
    return std::unique_ptr<RecvLink>(std::make_unique<SelfRecvLink>(std::move(fifo)));
  }

  Status progress() override { return {}; }
  bool drained() const override { return true; }
  bool prepare_wait(std::vector<pollfd>&) override {
    for (const auto& fifo : fifos_) {
      if (!fifo) continue;
      if ((fifo->sender_waits && !fifo->full()) || (fifo->receiver_waits && !fifo->empty())) return false;
    }
    return true;
  }
  void finish_wait() override {}
  Status check_peers() override { return {}; }

 private:
  Result<std::shared_ptr<Fifo>> open(Rank peer, ChannelId channel, bool Fifo::*end) {
    if (peer != self_ || channel >= kMaxChannels)
      return fail(tuttiInternalError, "the self transport of rank {} cannot open a link to rank {}, channel {}",
                  uint32_t{self_}, uint32_t{peer}, uint16_t{channel});
    std::shared_ptr<Fifo>& fifo = fifos_[channel];
    if (!fifo) fifo = std::make_shared<Fifo>();
    if (fifo.get()->*end)
      return fail(tuttiInternalError, "this end of the loopback channel {} is open already", uint16_t{channel});
    fifo.get()->*end = true;
    return fifo;
  }

  Rank self_;
  size_t max_bytes_;
  std::array<std::shared_ptr<Fifo>, kMaxChannels> fifos_;
};

}  // namespace

std::unique_ptr<Transport> make_self_transport(const TransportContext& context) {
  return std::make_unique<SelfTransport>(context);
}

}  // namespace tutti
