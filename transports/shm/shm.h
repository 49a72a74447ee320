// The shm transport: ranks of one host exchange messages through shared memory.
//
// Each rank owns an inbox: one memfd that holds, for every (source rank, channel), a FIFO of slots. It is sparse:
// memory is used only where a message has been. A sender maps its FIFO of the receiver's inbox through /proc/PID/fd and
// writes straight into it; ranks that are threads of one process share the owner's mapping. No name ever appears in a
// file system, so nothing remains after kill -9. A rank holds two descriptors however many links it has: the memfd and
// a datagram socket, its doorbell, which a peer rings only while the rank sleeps in poll().
//
// Memory. Slots are sized from the number of ranks, so that a rank whose every peer has sent it something on one
// channel stays below about 9 MiB: 4 slots of 256 KiB per link up to 8 ranks, of 32 KiB at 64 ranks. TUTTI_TILE
// overrides.
//
// Trust. A peer must run as the same user; it can write this rank's inbox, and nothing else of it.
#pragma once

#include <memory>

#include "transports/transport.h"

namespace tutti {

// Errors: tuttiSystemError when the kernel refuses a memfd, a socket or /proc; the message says what to try.
// Links must be destroyed before their transport.
Result<std::unique_ptr<Transport>> make_shm_transport(const TransportContext& context);

}  // namespace tutti
