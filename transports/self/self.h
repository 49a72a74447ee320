// The self transport: loopback FIFOs inside one rank, for plans that hand data from one lane to another.
//
// Links are mapped; both ends of a FIFO belong to the rank's one thread, so nothing here is atomic. A FIFO holds
// kSelfDepth messages; a slot's memory grows to the largest message that it carried.
#pragma once

#include <memory>

#include "transports/transport.h"

namespace tutti {

constexpr uint32_t kSelfDepth = 4;

// Messages may be up to the larger of 1 MiB and TUTTI_TILE.
std::unique_ptr<Transport> make_self_transport(const TransportContext& context);

}  // namespace tutti
