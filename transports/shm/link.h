// The two ends of a shared-memory FIFO, and what they know of the rank at the other end.
//
// Protocol. Message n goes into slot n mod depth. The sender writes the payload and the stamp, then sequence = n + 1.
// The receiver reads, then sets consumed = n + 1, which gives the slot back. Both words are stored and the partner's
// waiting flag is then loaded; a rank that is about to sleep stores its flags and then loads those words. At least one of
// the two must see the other's store: either the sleeper finds the news, or the one who brings it finds the flag and rings.
// The sleeper pays for that order with a process barrier (base/process_barrier.h), so that a post or a release is a plain
// store that nobody waits for. Where either process has no such barriers, both sides' accesses are sequentially
// consistent instead, on x86 an xchg.
#pragma once

#include <sys/un.h>

#include <memory>
#include <string>
#include <vector>

#include "base/process_barrier.h"
#include "transports/shm/doorbell.h"
#include "transports/shm/inbox.h"

namespace tutti::shm {

// Another rank, as long as the transport lives.
struct Peer {
  std::string description;
  std::string unreachable;  // why no link can be made; empty: it can
  Address address;
  sockaddr_un doorbell{};
  std::unique_ptr<PeerInbox> inbox;
  bool barriers = false;  // both processes take part in process barriers
  uint32_t open_links = 0;
  Status failure;  // its process has died

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

class ShmSendLink final : public SendLink, private LinkEnd {
 public:
  ShmSendLink(Peer& peer, const Doorbell& doorbell, std::shared_ptr<Mapping> memory, std::vector<LinkEnd*>& ends)
      : LinkEnd(peer, doorbell, std::move(memory), peer.address.geometry, ends) {}
  bool mapped() const override { return true; }
  Result<std::byte*> claim(size_t bytes) override;
  void post(size_t bytes, const Stamp& stamp) override;
  Result<bool> put(std::span<const ConstPiece> pieces, const Stamp& stamp) override;
  uint64_t retired() const override { return 0; }
  void detach() override {}

 private:
  bool can_go_on() const override;
  std::atomic<uint32_t>& own_waiting_flag() override { return page_.sender_waits; }
  std::atomic<uint32_t>& peer_waiting_flag() override { return page_.receiver_waits; }

  uint64_t posted_ = 0;
  uint64_t released_ = 0;  // as last seen
  bool claimed_inline_ = false;
};

class ShmRecvLink final : public RecvLink, private LinkEnd {
 public:
  ShmRecvLink(Peer& peer, const Doorbell& doorbell, std::shared_ptr<Mapping> memory, const Geometry& geometry,
              std::vector<LinkEnd*>& ends)
      : LinkEnd(peer, doorbell, std::move(memory), geometry, ends) {}
  bool mapped() const override { return true; }
  Result<Arrival> receive(std::span<const MutablePiece> into, size_t bytes, const Stamp& stamp) override;
  void release() override;

 private:
  bool can_go_on() const override;
  std::atomic<uint32_t>& own_waiting_flag() override { return page_.receiver_waits; }
  std::atomic<uint32_t>& peer_waiting_flag() override { return page_.sender_waits; }

  static constexpr uint32_t kPollsPerLook = 16;

  uint64_t consumed_ = 0;
  uint32_t pending_polls_ = 0;
  bool peer_gone_ = false;
};

}  // namespace tutti::shm
