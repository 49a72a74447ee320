// The p2p transport: ranks whose devices reach each other's memory. Kernels store straight into the receiver's slots.
//
// Each rank owns one allocation of its device: a section for every (peer, channel), in which lie the FIFO from that peer
// and the counter of what that peer has consumed of the FIFO to it. Ranks of one process use each other's addresses;
// others import the allocation (Device::import_memory). A rank reaches itself the same way.
//
// It is a Transport for the wiring, which chooses routes by it; but its links are ends of FIFOs for kernels (FifoSource),
// not for the host: open_send() and open_recv() refuse.
//
// Memory: (peers x 64 channels) sections of 64 KiB for protocol ll and 4 slots; slots are sized by the number of ranks
// so that the allocation stays at 512 MiB of address space, of which a simulated GPU uses what has been touched.
#pragma once

#include <memory>

#include "cuda/device.h"
#include "cuda/fifo_source.h"
#include "transports/transport.h"

namespace tutti {

class P2pTransport : public Transport, public FifoSource {};

// `device` must outlive it. Errors: those of Device::allocate.
Result<std::unique_ptr<P2pTransport>> make_p2p_transport(const TransportContext& context, Device& device);

}  // namespace tutti
