// Dialling: from a meeting point to a connection whose other end has proved the key.
#pragma once

#include "base/network_interface.h"
#include "bootstrap/connection.h"

namespace tutti {

// The hub as met: the connection, and what it said of its process.
struct Acquaintance {
  Connection connection;
  wire::Welcome hub;
};

// Tries every address and port of the point in turn, again and again until the deadline, since the hub's process may
// start later than this one. `abort` is looked at every 50 ms. Ends early
//   * at once, when the only candidate refuses this rank;
//   * after 5 s in which a hub kept refusing the key (or talked another version) and nothing of Tutti was at any other
//     candidate: that hub is ours and the key is wrong, or it is another job's and ours is not coming;
//   * after 5 s in which the host's name did not exist, 30 s in which no name server answered.
// Errors: tuttiTimeout (nobody there; says what happened last), tuttiInvalidArgument (wrong key), the hub's own
// refusal; tuttiInvalidUsage or tuttiSystemError for the name, with the variable that it is from.
Result<Acquaintance> dial(const MeetingPoint& point, const Introduction& self, Nanoseconds deadline,
                          const std::atomic<bool>& abort);

// Waits for `events` on the descriptor (-1: just waits) until the time; false when it has passed. The Status is an
// error when `abort` is set.
Result<bool> wait_for(int descriptor, short events, Nanoseconds until, const std::atomic<bool>& abort);

}  // namespace tutti
