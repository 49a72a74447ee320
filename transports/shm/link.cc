#include "transports/shm/link.h"

#include <algorithm>

namespace tutti::shm {

Status Peer::gone() const {
  if (!failure.ok()) return failure;
  if (inbox->header().closed.load(std::memory_order_seq_cst) == 0) return {};
  return fail(tuttiRemoteError, "{} has left the communicator, but more was to be exchanged with it", description);
}

LinkEnd::LinkEnd(Peer& peer, const Doorbell& doorbell, std::shared_ptr<Mapping> memory, const Geometry& geometry,
                 std::vector<LinkEnd*>& ends)
    : peer_(peer),
      page_(*reinterpret_cast<LinkPage*>(memory->data())),
      barriers_(peer.barriers),
      slot_bytes_(geometry.slot_bytes),
      depth_(geometry.depth),
      doorbell_(doorbell),
      memory_(std::move(memory)),
      data_(memory_->data() + kPageBytes),
      mask_(geometry.depth - 1),
      ends_(ends) {
  ends_.push_back(this);
  ++peer_.open_links;
}

LinkEnd::~LinkEnd() {
  std::erase(ends_, this);
  --peer_.open_links;
}

void LinkEnd::arm() {
  if (waits_) own_waiting_flag().store(1, std::memory_order_seq_cst);
}

void LinkEnd::disarm() {
  // Sequentially consistent, so that a partner who still finds the old 1 also comes before the next arm()'s look.
  if (waits_) own_waiting_flag().store(0, std::memory_order_seq_cst);
}

void LinkEnd::ring() {
  // Several partners may have news for one sleeper; the one that takes the word back from 1 rings. A partner that finds
  // 0 has come after another's ring of this sleep, or its flag is left over from an earlier sleep and the sleeper's
  // next look comes after its store.
  std::atomic<uint32_t>& sleeping = peer_.inbox->header().sleeping;
  if (sleeping.load(std::memory_order_seq_cst) != 0 && sleeping.exchange(0, std::memory_order_seq_cst) != 0)
    doorbell_.ring(peer_.doorbell);
}

Result<std::byte*> ShmSendLink::claim(size_t bytes) {
  if (bytes > slot_bytes_)
    return fail(tuttiInternalError, "a message of {} bytes to {} exceeds the shared memory slot of {}", bytes,
                peer_.description, slot_bytes_);
  if (posted_ - released_ >= depth_) {
    // Acquire: the receiver's reads of the slot come before our writes into it.
    released_ = page_.consumed.load(std::memory_order_acquire);
    if (posted_ - released_ >= depth_) {
      waits_ = true;
      const Status gone = peer_.gone();
      if (gone.ok()) return static_cast<std::byte*>(nullptr);
      released_ = page_.consumed.load(std::memory_order_acquire);
      if (posted_ - released_ >= depth_) return gone;
    }
  }
  waits_ = false;
  claimed_inline_ = bytes <= kInlineBytes;
  return claimed_inline_ ? slot_line(posted_).payload : slot_data(posted_);
}

void ShmSendLink::post(size_t bytes, const Stamp& stamp) {
  SlotLine& slot = slot_line(posted_);
  slot.tag = stamp.tag;
  slot.stamp_sequence = stamp.sequence;
  slot.size = static_cast<uint32_t>(bytes) | (claimed_inline_ ? kInlineFlag : 0);
  publish(slot.sequence, ++posted_);
  // The receiver has read the next line some messages ago; fetching it back now keeps the next post from waiting for it.
  __builtin_prefetch(&slot_line(posted_), 1);
}

Result<bool> ShmSendLink::put(std::span<const ConstPiece>, const Stamp&) {
  return fail(tuttiInternalError, "put() on a mapped link of the shm transport; use claim()");
}

bool ShmSendLink::can_go_on() const { return posted_ - page_.consumed.load(std::memory_order_seq_cst) < depth_; }

Result<Arrival> ShmRecvLink::receive(std::span<const MutablePiece>, size_t bytes, const Stamp& stamp) {
  const SlotLine& slot = slot_line(consumed_);
  // Acquire: pairs with post(); what it published is read below.
  if (slot.sequence.load(std::memory_order_acquire) != consumed_ + 1) {
    waits_ = true;
    // Not at every poll: a look at the peer takes about as long as the rest.
    if (!peer_gone_ && ++pending_polls_ % kPollsPerLook != 0) return Arrival{};
    const Status gone = peer_.gone();
    peer_gone_ = !gone.ok();
    if (!peer_gone_) return Arrival{};
    if (slot.sequence.load(std::memory_order_acquire) != consumed_ + 1) return gone;
  }
  waits_ = false;
  const Stamp came{.tag = slot.tag, .sequence = slot.stamp_sequence};
  const uint32_t came_bytes = slot.size & ~kInlineFlag;
  if (came != stamp || came_bytes != bytes || bytes > slot_bytes_) [[unlikely]]
    return Arrival{.state = Arrival::State::mismatch, .stamp = came, .bytes = came_bytes};
  const bool is_inline = (slot.size & kInlineFlag) != 0;
  return Arrival{.state = Arrival::State::arrived,
                 .data = is_inline ? slot.payload : slot_data(consumed_),
                 .stamp = stamp,
                 .bytes = bytes};
}

void ShmRecvLink::release() { publish(page_.consumed, ++consumed_); }

bool ShmRecvLink::can_go_on() const {
  return slot_line(consumed_).sequence.load(std::memory_order_seq_cst) == consumed_ + 1;
}

}  // namespace tutti::shm
