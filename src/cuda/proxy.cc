#include "cuda/proxy.h"

#include <cstring>

namespace tutti {

struct Proxy::Shared {
  alignas(128) uint64_t posted;
  alignas(128) uint64_t consumed;
  alignas(128) uint64_t granted;
  alignas(128) uint64_t count;  // of the kernel
  alignas(128) dev::SlotNote notes[dev::kDepth];
  dev::SlotNote grants[dev::kDepth];
};

namespace {

uint64_t acquire(const uint64_t& counter) { return __atomic_load_n(&counter, __ATOMIC_ACQUIRE); }
void release(uint64_t& counter, uint64_t value) { __atomic_store_n(&counter, value, __ATOMIC_RELEASE); }

}  // namespace

Proxy::~Proxy() {
  for (auto& [key, send] : sends_) device_.free(send.memory);
  for (auto& [key, recv] : recvs_) device_.free(recv.memory);
}

Result<std::byte*> Proxy::make_memory() {
  return device_.allocate_pinned(sizeof(Shared) + dev::kDepth * slot_bytes_);
}

std::byte* Proxy::slot(std::byte* memory, uint64_t number) const {
  return memory + sizeof(Shared) + number % dev::kDepth * slot_bytes_;
}

Result<dev::SendFifo> Proxy::send_fifo(const Peer& peer) {
  Send& send = sends_[{peer.rank, peer.channel}];
  if (!send.memory) {
    TUTTI_TRY_ASSIGN(send.end, links_.send_end(peer));
    TUTTI_TRY_ASSIGN(send.memory, make_memory());
    send.put_numbers.assign(dev::kDepth, 0);
  }
  auto& shared = *reinterpret_cast<Shared*>(send.memory);
  return dev::SendFifo{send.memory + sizeof(Shared), nullptr,       shared.notes, &shared.posted,
                       &shared.consumed,             &shared.count, slot_bytes_};
}

Result<dev::RecvFifo> Proxy::recv_fifo(const Peer& peer) {
  Recv& recv = recvs_[{peer.rank, peer.channel}];
  if (!recv.memory) {
    TUTTI_TRY_ASSIGN(recv.link, links_.recv_link(peer));
    TUTTI_TRY_ASSIGN(recv.memory, make_memory());
  }
  auto& shared = *reinterpret_cast<Shared*>(recv.memory);
  dev::RecvFifo fifo;
  fifo.slots = recv.memory + sizeof(Shared);
  fifo.notes = shared.notes;
  fifo.posted = &shared.posted;
  fifo.consumed = &shared.consumed;
  fifo.count = &shared.count;
  fifo.slot_bytes = slot_bytes_;
  fifo.grants = shared.grants;
  fifo.granted = &shared.granted;
  return fifo;
}

// Acquire: the kernel's release of `posted` comes after the slot and its note. Release of `consumed`: the slot has been
// read.
Status Proxy::push(Send& send) {
  auto& shared = *reinterpret_cast<Shared*>(send.memory);
  SendLink& link = *send.end->link;
  while (send.taken < acquire(shared.posted)) {
    const dev::SlotNote& note = shared.notes[send.taken % dev::kDepth];
    std::byte* const data = slot(send.memory, send.taken);
    const Stamp stamp{note.tag, note.sequence};
    if (link.mapped()) {
      TUTTI_TRY_ASSIGN(const Room room, link.claim(note.bytes));
      if (!room) break;
      if (note.bytes != 0) std::memcpy(room.data, data, note.bytes);
      link.post(note.bytes, stamp);
      ++send.end->sent;
    } else {
      const ConstPiece piece{data, note.bytes};
      TUTTI_TRY_ASSIGN(const bool taken, link.put({&piece, 1}, stamp));
      if (!taken) break;
      send.put_numbers[send.taken % dev::kDepth] = send.end->sent++;
    }
    ++send.taken;
  }
  const uint64_t before = send.returned;
  while (send.returned < send.taken &&
         (link.mapped() || link.retired() > send.put_numbers[send.returned % dev::kDepth]))
    ++send.returned;
  if (send.returned != before) release(shared.consumed, send.returned);
  return {};
}

// The kernel grants one message at a time, and a slot only when it has consumed what lay there before.
Status Proxy::pull(Recv& recv) {
  auto& shared = *reinterpret_cast<Shared*>(recv.memory);
  while (recv.arrived < acquire(shared.granted)) {
    const dev::SlotNote grant = shared.grants[recv.arrived % dev::kDepth];
    std::byte* const data = slot(recv.memory, recv.arrived);
    const MutablePiece into{data, grant.bytes};
    TUTTI_TRY_ASSIGN(const Arrival arrival, recv.link->receive({&into, 1}, grant.bytes, {grant.tag, grant.sequence}));
    if (arrival.state == Arrival::State::pending) return {};
    dev::SlotNote& note = shared.notes[recv.arrived % dev::kDepth];
    if (arrival.state == Arrival::State::mismatch) {
      // The kernel compares, and tells.
      note = {arrival.stamp.tag, arrival.stamp.sequence, static_cast<uint32_t>(arrival.bytes)};
    } else {
      if (recv.link->mapped() && grant.bytes != 0) std::memcpy(data, arrival.data, grant.bytes);
      recv.link->release();
      note = grant;
    }
    release(shared.posted, ++recv.arrived);
    if (arrival.state == Arrival::State::mismatch) return {};
  }
  return {};
}

Status Proxy::progress() {
  for (auto& [key, send] : sends_)
    if (send.memory) TUTTI_TRY(push(send));
  for (auto& [key, recv] : recvs_)
    if (recv.memory) TUTTI_TRY(pull(recv));
  return {};
}

bool Proxy::drained() const {
  for (const auto& [key, send] : sends_)
    if (send.memory && send.returned < acquire(reinterpret_cast<const Shared*>(send.memory)->posted)) return false;
  return true;
}

}  // namespace tutti
