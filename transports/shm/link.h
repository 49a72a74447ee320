// The two ends of a shared-memory FIFO, and what they know of the rank at the other end.
//
// Protocol. Message n goes into slot n mod depth. The sender writes the payload and the stamp, then sequence = n + 1.
// The receiver reads, then sets consumed = n + 1, which gives the slot back. Both words are stored and the partner's
// waiting flag is then loaded; a rank that is about to sleep stores its flags and then loads those words. At least one of
// the two must see the other's store: either the sleeper finds the news, or the one who brings it finds the flag and rings.
// The sleeper pays for that order with a process barrier (base/process_barrier.h), so that a post or a release is a plain
// store that nobody waits for. Where either process has no such barriers, both sides' accesses are sequentially
// consistent instead, on x86 an xchg.
//
// Shareable memory (base/shareable.h). A sender that has a message there offers the region with a message that goes
// through a slot; the receiver maps it and says so in LinkPage::mapped; later messages are lent: their line holds the
// place, and `consumed` tells when it may be overwritten. A receiver that wants a message in such memory writes the place
// to the message's GrantLine before it gives the credit for the message, so that a sender with credit finds it; a sender
// that can map the region writes there and says so in the message's line.
#pragma once

#include <sys/un.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process_barrier.h"
#include "transports/shm/doorbell.h"
#include "transports/shm/inbox.h"
#include "transports/shm/regions.h"

namespace tutti::shm {

// Another rank, as long as the transport lives.
struct Peer {
  std::string description;
  std::string unreachable;  // why no link can be made; empty: it can
  Address address;
  sockaddr_un doorbell{};
  std::unique_ptr<PeerInbox> inbox;
  PeerRegions regions;
  bool barriers = false;  // both processes take part in process barriers
  uint32_t open_links = 0;
  Status failure;  // its process has died

  // Its region of that name; null when it cannot be mapped.
  std::shared_ptr<ShareableRegion> region(const RegionName& name) {
    return regions.find(name, inbox->same_process() ? nullptr : &address.pid);
  }

  // Why it will neither post nor release any more, if so. `closed` is stored with sequential consistency after the
  // peer's last post and release: who sees it and then looks at the link again has seen all that will ever be there.
  Status gone() const;
};

// What both ends share: the memory, the peer, and whether this rank's last try found nothing to do.
class LinkEnd {
 public:
  virtual ~LinkEnd();
  LinkEnd(const LinkEnd&) = delete;
  LinkEnd& operator=(const LinkEnd&) = delete;

  // Announces that this rank sleeps until the link changes. After that and a process barrier: whether it has not changed
  // already.
  void arm();
  bool quiet() const { return !waits_ || (!can_go_on() && peer_.gone().ok()); }
  void disarm();
  // What has changed is news once. Whoever still waits asks again, and waits again; a link that nobody asks any more, since
  // its operation has ended, must not keep the rank awake.
  void take_news() { waits_ = waits_ && quiet(); }

 protected:
  // Enters itself in `ends`, the transport's list of open ends.
  LinkEnd(Peer& peer, const Doorbell& doorbell, std::shared_ptr<Mapping> memory, const Geometry& geometry,
          std::vector<LinkEnd*>& ends);

  virtual bool can_go_on() const = 0;                     // looks at the shared words, sequentially consistent
  virtual std::atomic<uint32_t>& own_waiting_flag() = 0;  // the partner looks at it after every store
  virtual std::atomic<uint32_t>& peer_waiting_flag() = 0;
  // Stores what the peer may sleep for, and wakes it if it does. Release: what was written (a message) or read (to be
  // overwritten now) before comes before it.
  void publish(std::atomic<uint64_t>& word, uint64_t value) {
    if (barriers_) {
      word.store(value, std::memory_order_release);
      light_barrier();
    } else {
      word.store(value, std::memory_order_seq_cst);
    }
    // Mostly 0 and unshared with anything that is written often: a load that hits the cache.
    if (peer_waiting_flag().load(std::memory_order_seq_cst) != 0) [[unlikely]]
      ring();
  }
  std::byte* slot_data(uint64_t message) const { return data_ + (message & mask_) * slot_bytes_; }
  SlotLine& slot_line(uint64_t message) const { return page_.slots[message & mask_]; }

  Peer& peer_;
  LinkPage& page_;
  const bool barriers_;
  const uint64_t slot_bytes_;
  const uint32_t depth_;
  bool waits_ = false;

 private:
  void ring();

  const Doorbell& doorbell_;
  const std::shared_ptr<Mapping> memory_;
  std::byte* const data_;
  const uint32_t mask_;
  std::vector<LinkEnd*>& ends_;
};

// This process's region that a message lies in. Asks for it again only when there are others than before.
class OwnRegion {
 public:
  // Null: none holds all of it.
  const ShareableRegion* find(const std::byte* begin, size_t bytes) {
    const uint64_t version = shareable_version();
    if (version == 0) return nullptr;
    if (version != version_ || !region_ || !region_->holds(begin, bytes)) {
      region_ = find_shareable(begin, bytes);
      version_ = version;
    }
    return region_.get();
  }

 private:
  std::shared_ptr<ShareableRegion> region_;
  uint64_t version_ = 0;
};

// The peer's region that was used last: what a link writes to or reads from stays mapped meanwhile.
class PeerRegion {
 public:
  const ShareableRegion* find(Peer& peer, const RegionName& name) {
    if (!region_ || region_->name().id != name.id) region_ = peer.region(name);
    return region_.get();
  }
  // Where a message lies or is to lie; null when the region cannot be mapped or does not reach so far.
  std::byte* at(Peer& peer, const MemoryPlace& place) {
    const ShareableRegion* region = find(peer, place.region);
    const uint64_t size = region ? region->name().bytes : 0;
    if (place.bytes > size || place.offset > size - place.bytes) return nullptr;
    return region->data() + place.offset;
  }

 private:
  std::shared_ptr<ShareableRegion> region_;
};

class ShmSendLink final : public SendLink, private LinkEnd {
 public:
  ShmSendLink(Peer& peer, const Doorbell& doorbell, std::shared_ptr<Mapping> memory, std::vector<LinkEnd*>& ends)
      : LinkEnd(peer, doorbell, std::move(memory), peer.address.geometry, ends) {}
  bool mapped() const override { return true; }
  Result<Room> claim(size_t bytes) override;
  void post(size_t bytes, const Stamp& stamp) override;
  Result<bool> lend(const std::byte* data, size_t bytes, const Stamp& stamp) override;
  Result<bool> put(std::span<const ConstPiece> pieces, const Stamp& stamp) override;
  uint64_t retired() override;
  void detach() override {}  // put links only; what is lent stays lent

 private:
  bool can_go_on() const override;
  Result<bool> has_credit();
  std::byte* granted_place(size_t bytes);
  bool may_lend(const ShareableRegion& region);
  void announce(uint32_t size, const Stamp& stamp);
  std::atomic<uint32_t>& own_waiting_flag() override { return page_.sender_waits; }
  std::atomic<uint32_t>& peer_waiting_flag() override { return page_.receiver_waits; }

  uint64_t posted_ = 0;
  uint64_t released_ = 0;  // as last seen
  // Of the claimed room: kInlineFlag, kGrantedFlag or kSlotClaimed; 0: nothing is claimed.
  static constexpr uint32_t kSlotClaimed = 1;
  uint32_t claimed_ = 0;
  OwnRegion lent_from_;
  PeerRegion granted_in_;
  // Regions that were offered, by the number of the offer mod kOffers, and the offer that the next message carries.
  std::array<uint64_t, kOffers> offers_{};
  uint32_t next_offer_ = 0;
  std::optional<MemoryPlace> to_offer_;
};

class ShmRecvLink final : public RecvLink, private LinkEnd {
 public:
  ShmRecvLink(Peer& peer, const Doorbell& doorbell, std::shared_ptr<Mapping> memory, const Geometry& geometry,
              std::vector<LinkEnd*>& ends)
      : LinkEnd(peer, doorbell, std::move(memory), geometry, ends) {}
  bool mapped() const override { return true; }
  Result<Arrival> receive(std::span<const MutablePiece> into, size_t bytes, const Stamp& stamp) override;
  void release() override;
  bool grant(std::byte* place, size_t bytes) override;

 private:
  bool can_go_on() const override;
  const std::byte* lent_data(const SlotLine& slot);
  void accept_offer(const SlotLine& slot);
  std::atomic<uint32_t>& own_waiting_flag() override { return page_.receiver_waits; }
  std::atomic<uint32_t>& peer_waiting_flag() override { return page_.sender_waits; }

  static constexpr uint32_t kPollsPerLook = 16;

  uint64_t consumed_ = 0;
  uint64_t settled_ = 0;  // messages of which it is said whether they are granted
  bool holds_ = false;    // message number `consumed_` has arrived
  uint32_t pending_polls_ = 0;
  bool peer_gone_ = false;
  std::array<std::byte*, kMaxDepth> places_{};  // granted, by message mod depth
  OwnRegion granted_from_;
  PeerRegion lent_in_;
};

}  // namespace tutti::shm
