// Proxy: carries messages between kernels and links that only the host can use (tcp, shm).
//
// A proxied FIFO lies in memory that the device and the host share. The kernel posts to it as to any other; progress()
// hands what was posted to the link, and what the link brings to the kernel, one link message a slot. It knows slots and
// credits, never plans: a receiving kernel says of each message what it expects, since links ask for it.
//
// One thread at a time. Nothing here blocks. A slot is given back when its link no longer reads it.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "cuda/device.h"
#include "cuda/fifo_source.h"
#include "engine/link_source.h"

namespace tutti {

class Proxy final : public FifoSource {
 public:
  // `slot_bytes`: of the longest message. Both references must outlive it.
  Proxy(Device& device, LinkSource& links, uint64_t slot_bytes) : device_(device), links_(links), slot_bytes_(slot_bytes) {}
  ~Proxy() override;

  Result<dev::SendFifo> send_fifo(const Peer& peer) override;
  Result<dev::RecvFifo> recv_fifo(const Peer& peer) override;

  Status progress();
  // What kernels have posted has been handed over and is read no more.
  bool drained() const;
  bool used() const { return !sends_.empty() || !recvs_.empty(); }

 private:
  struct Shared;  // what lies in the memory of a FIFO
  struct Send {
    SendEnd* end = nullptr;
    std::byte* memory = nullptr;
    uint64_t taken = 0;      // messages handed to the link
    uint64_t returned = 0;
    std::vector<uint64_t> put_numbers;  // by slot
  };
  struct Recv {
    RecvLink* link = nullptr;
    std::byte* memory = nullptr;
    uint64_t arrived = 0;
  };
  Result<std::byte*> make_memory();
  Status push(Send& send);
  Status pull(Recv& recv);
  std::byte* slot(std::byte* memory, uint64_t number) const;

  using Key = std::pair<uint32_t, uint16_t>;
  Device& device_;
  LinkSource& links_;
  const uint64_t slot_bytes_;
  std::map<Key, Send> sends_;
  std::map<Key, Recv> recvs_;
};

}  // namespace tutti
