#include "transports/shm/link.h"

#include <algorithm>
#include <cstring>
#include <utility>

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

Result<bool> ShmSendLink::has_credit() {
  if (posted_ - released_ >= depth_) {
    // Acquire: the receiver's reads of the slot come before our writes into it, and its grant before its credit.
    released_ = page_.consumed.load(std::memory_order_acquire);
    if (posted_ - released_ >= depth_) {
      waits_ = true;
      const Status gone = peer_.gone();
      if (gone.ok()) return false;
      released_ = page_.consumed.load(std::memory_order_acquire);
      if (posted_ - released_ >= depth_) return gone;
    }
  }
  waits_ = false;
  return true;
}

Result<Room> ShmSendLink::claim(size_t bytes) {
  if (bytes > slot_bytes_)
    return fail(tuttiInternalError, "a message of {} bytes to {} exceeds the shared memory slot of {}", bytes,
                peer_.description, slot_bytes_);
  TUTTI_TRY_ASSIGN(const bool credit, has_credit());
  if (!credit) return Room{};
  if (bytes <= kInlineBytes) {
    claimed_ = kInlineFlag;
    return Room{slot_line(posted_).payload};
  }
  if (claimed_ == kInlineFlag) claimed_ = 0;
  // A grant that comes only after the room was claimed is left alone.
  if (std::byte* const place = claimed_ == kSlotClaimed ? nullptr : granted_place(bytes)) {
    claimed_ = kGrantedFlag;
    return Room{place, true};
  }
  claimed_ = kSlotClaimed;
  return Room{slot_data(posted_)};
}

// Where the receiver wants the next message, if it said so and this process can write there.
std::byte* ShmSendLink::granted_place(size_t bytes) {
  const GrantLine& grant = page_.grants[posted_ & (kMaxDepth - 1)];
  // Acquire: pairs with grant(). The line is written again only after this message has arrived.
  if (grant.message.load(std::memory_order_acquire) != posted_ + 1 || grant.place.bytes != bytes) return nullptr;
  return granted_in_.at(peer_, grant.place);
}

void ShmSendLink::post(size_t bytes, const Stamp& stamp) {
  uint32_t flags = std::exchange(claimed_, 0) & ~kSlotClaimed;
  if (flags != kInlineFlag && to_offer_) {
    std::memcpy(slot_line(posted_).payload, &*to_offer_, sizeof *to_offer_);
    flags |= kOfferFlag;
    to_offer_.reset();
  }
  announce(static_cast<uint32_t>(bytes) | flags, stamp);
}

void ShmSendLink::announce(uint32_t size, const Stamp& stamp) {
  SlotLine& slot = slot_line(posted_);
  slot.tag = stamp.tag;
  slot.stamp_sequence = stamp.sequence;
  slot.size = size;
  publish(slot.sequence, ++posted_);
  // The receiver has read the next line some messages ago; fetching it back now keeps the next post from waiting for it.
  __builtin_prefetch(&slot_line(posted_), 1);
}

Result<bool> ShmSendLink::lend(const std::byte* data, size_t bytes, const Stamp& stamp) {
  const ShareableRegion* region = lent_from_.find(data, bytes);
  if (!region || bytes <= kInlineBytes || bytes > slot_bytes_ || !may_lend(*region)) return false;
  TUTTI_TRY_ASSIGN(const bool credit, has_credit());
  if (!credit) return false;
  const MemoryPlace place{.region = region->name(),
                          .offset = static_cast<uint64_t>(data - region->data()),
                          .offer = 0,
                          .bytes = static_cast<uint32_t>(bytes)};
  std::memcpy(slot_line(posted_).payload, &place, sizeof place);
  announce(static_cast<uint32_t>(bytes) | kLentFlag, stamp);
  return true;
}

// Whether the receiver has mapped the region. One that was not offered is offered with the next message.
bool ShmSendLink::may_lend(const ShareableRegion& region) {
  const uint64_t id = region.name().id;
  const auto offered = std::ranges::find(offers_, id);
  if (offered != offers_.end()) {
    // Acquire orders nothing that matters: the id alone is the news.
    return page_.mapped[offered - offers_.begin()].load(std::memory_order_acquire) == id;
  }
  const uint32_t number = next_offer_++ % kOffers;
  offers_[number] = id;
  to_offer_ = MemoryPlace{.region = region.name(), .offset = 0, .offer = number, .bytes = 0};
  return false;
}

uint64_t ShmSendLink::retired() {
  // Acquire: the receiver's reads come before whatever is written there next.
  released_ = page_.consumed.load(std::memory_order_acquire);
  waits_ = released_ < posted_;
  return released_;
}

Result<bool> ShmSendLink::put(std::span<const ConstPiece>, const Stamp&) {
  return fail(tuttiInternalError, "put() on a mapped link of the shm transport; use claim()");
}

// Who waits for a credit, or for what was lent to come back, has seen `released_`.
bool ShmSendLink::can_go_on() const { return page_.consumed.load(std::memory_order_seq_cst) != released_; }

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
  const uint32_t came_bytes = slot.size & kSizeMask;
  if (came != stamp || came_bytes != bytes || bytes > slot_bytes_) [[unlikely]]
    return Arrival{.state = Arrival::State::mismatch, .stamp = came, .bytes = came_bytes};
  holds_ = true;
  const std::byte* data = (slot.size & kInlineFlag) != 0 ? slot.payload : slot_data(consumed_);
  if ((slot.size & (kLentFlag | kGrantedFlag | kOfferFlag)) != 0) [[unlikely]] {
    if ((slot.size & kGrantedFlag) != 0) data = places_[consumed_ & (kMaxDepth - 1)];
    if ((slot.size & kLentFlag) != 0) data = lent_data(slot);
    if ((slot.size & kOfferFlag) != 0) accept_offer(slot);
    if (!data)
      return fail(tuttiInternalError, "{} has sent a message in memory that this process cannot reach",
                  peer_.description);
  }
  return Arrival{.state = Arrival::State::arrived, .data = data, .stamp = stamp, .bytes = bytes};
}

const std::byte* ShmRecvLink::lent_data(const SlotLine& slot) {
  MemoryPlace place;
  std::memcpy(&place, slot.payload, sizeof place);
  return lent_in_.at(peer_, place);
}

void ShmRecvLink::accept_offer(const SlotLine& slot) {
  MemoryPlace place;
  std::memcpy(&place, slot.payload, sizeof place);
  if (peer_.region(place.region))
    page_.mapped[place.offer % kOffers].store(place.region.id, std::memory_order_release);
}

void ShmRecvLink::release() {
  holds_ = false;
  publish(page_.consumed, ++consumed_);
}

bool ShmRecvLink::grant(std::byte* place, size_t bytes) {
  settled_ = std::max(settled_, consumed_ + (holds_ ? 1 : 0));
  // The credit for message n comes with the release of message n - depth.
  if (settled_ >= consumed_ + depth_ + (holds_ ? 1 : 0)) return false;
  const uint64_t message = settled_++;
  const ShareableRegion* region = place && bytes > kInlineBytes ? granted_from_.find(place, bytes) : nullptr;
  if (!region) return true;
  const uint64_t entry = message & (kMaxDepth - 1);
  places_[entry] = place;
  GrantLine& grant = page_.grants[entry];
  grant.place = {.region = region->name(),
                 .offset = static_cast<uint64_t>(place - region->data()),
                 .offer = 0,
                 .bytes = static_cast<uint32_t>(bytes)};
  // Release: the place before the number.
  grant.message.store(message + 1, std::memory_order_release);
  return true;
}

bool ShmRecvLink::can_go_on() const {
  return slot_line(consumed_).sequence.load(std::memory_order_seq_cst) == consumed_ + 1;
}

}  // namespace tutti::shm
