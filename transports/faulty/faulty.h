// The faulty transport: a decorator that makes any transport behave badly, but within the contract, for tests.
//
// Deterministic for a given seed and order of calls. One rank, one thread, like every transport.
#pragma once

#include <memory>
#include <optional>

#include "transports/transport.h"

namespace tutti {

struct FaultOptions {
  uint64_t seed = 1;

  // Every message and every credit is seen up to this many polls later than it could be; how many is drawn each time.
  uint32_t delay_polls_max = 0;
  // In so many of 100 calls, receive() says `pending`, claim() null and put() false without having looked.
  uint32_t spurious_percent = 0;

  // This call (counted from 0 over all receive(), claim() and put() of the transport) fails, and all after it.
  std::optional<uint64_t> fail_at_call;
  Status failure = Status(tuttiSystemError, "injected failure");

  // A peer that dies: after so many messages from it have been released no more come, it gives no more credit, and
  // check_peers() says tuttiRemoteError.
  struct Death {
    Rank peer;
    uint64_t after_messages = 0;
  };
  std::optional<Death> death;
};

std::unique_ptr<Transport> make_faulty_transport(std::unique_ptr<Transport> inner, const FaultOptions& options);

}  // namespace tutti
