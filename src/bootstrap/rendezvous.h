// Rendezvous: how ranks find each other, and the control channel that they keep.
//
// One process holds the *hub*: a listening socket and one thread that sleeps in poll(). Every rank (the hub's own
// process included) keeps one TCP connection to it, its Control. The hub gathers one blob from each rank and hands all
// of them to all (exchange), notices a closed connection (a dead process) at once, and passes errors on to everybody.
// It never touches data. Strangers, port scanners and wrong keys are dropped without disturbing the ranks (HMAC-SHA256
// over fresh nonces of both sides with the 256-bit key of the unique id; the wire format is in wire.h).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/status.h"
#include "base/strong_int.h"

namespace tutti {

constexpr size_t kSecretBytes = 32;

// Where the hub listens and what proves membership; the contents of a tuttiUniqueId.
struct MeetingPoint {
  std::string host;  // numeric IPv4 or IPv6 address (with %scope) or, from a launcher, a name
  uint16_t port = 0;
  uint16_t port_count = 1;  // a launcher's port may be taken: the hub uses the first free of this many, clients try all
  std::array<std::byte, kSecretBytes> key{};
  std::string host_from{};  // the variable that names the host, for messages; empty for a unique id
};
tuttiUniqueId encode(const MeetingPoint& point);
// tuttiInvalidArgument when the bytes were not made by tuttiGetUniqueId of this major version.
Result<MeetingPoint> decode_unique_id(const tuttiUniqueId& id);

class Hub {
 public:
  // Listens (config: interface, family, port range) and starts the thread. With `fixed`, on that point's port(s) and
  // key.
  static Result<std::unique_ptr<Hub>> create(const Config& config, const MeetingPoint* fixed = nullptr);
  virtual ~Hub() = default;  // tells the ranks that it leaves on purpose, closes, joins the thread
  virtual MeetingPoint meeting_point() const = 0;
  // True once a group formed and every rank of it has left; the hub can be destroyed without anyone missing it.
  virtual bool finished() const = 0;
};

// What a rank says of itself when it arrives.
struct Introduction {
  Rank rank;
  Rank nranks{1};
  std::string host;
  int pid = 0;
  int version = TUTTI_VERSION_CODE;
};

// A collective call of a rank, as ranks compare it: calls of one sequence number must have one tag.
struct Call {
  uint32_t sequence = 0;
  uint64_t tag = 0;
  std::string what;  // in words
};

// What a rank says of itself when it has waited long.
struct LongWait {
  std::string what;         // it is in, in words
  std::vector<Rank> peers;  // it waits for
  std::vector<Call> calls;  // its last ones
};

// What the control channel has learnt since the last look.
struct ControlNews {
  // The communicator's first failure as told by the hub: another rank's error or death. Names rank, host and pid.
  std::optional<Status> failure;
  std::vector<Rank> departed;  // ranks that have left on purpose, in order
  uint32_t heard = 0;          // this many more of report_wait()'s words have come to the hub, which had no objection
};

// A rank's connection to the hub. One thread at a time, except abort-safe calls marked so.
class Control {
 public:
  // Connects, proves the key, waits for all nranks (re-trying the connection until the deadline, since the hub's
  // process may start later). Errors: tuttiTimeout naming the missing ranks (the first rank to lose patience, by its
  // own timeout, ends it for all); tuttiInvalidUsage for a rank claimed twice, another nranks, another version, naming
  // both sides, told to everybody present, or for a group that is complete already, told to the latecomer alone;
  // tuttiInvalidArgument for a wrong key. `abort` is looked at every 50 ms, also by exchange(), so it must outlive the
  // Control.
  static Result<std::unique_ptr<Control>> join(const MeetingPoint& point, const Introduction& self,
                                               const Config& config, const std::atomic<bool>& abort);
  virtual ~Control() = default;

  // Collective over all ranks: blobs[r] is what rank r passed, up to 4 MiB. Blocks until all came, with the config's
  // timeout; a rank that stays away is named to everybody. Fails at once when the group has failed or a rank has left.
  virtual Result<std::vector<std::vector<std::byte>>> exchange(std::vector<std::byte> mine) = 0;

  // Non-blocking: reads what has come. Safe to call often (one recv).
  virtual ControlNews poll() = 0;
  virtual int descriptor() const = 0;  // readable when poll() has something; -1 once the hub is gone

  // Tells the hub of this rank's failure, once; it goes to everybody, this rank too, with rank, host and pid in front.
  // tuttiInvalidUsage and tuttiTimeout keep their code, all else is tuttiRemoteError there; to a tuttiTimeout the hub
  // adds on which ranks this one depends by way of others, and which of them have not reported a wait. Of several
  // failures the first to reach the hub is the group's. Non-blocking, callable from any thread.
  virtual void report_failure(const Status& status) = 0;
  // "I have waited long": the hub compares this rank's calls with those of the others. It answers, through poll(), with
  // a failure when two disagree, else with `heard`. The wait counts until the next, or report_moving(). Non-blocking.
  virtual void report_wait(const LongWait& wait) = 0;
  virtual void report_moving() = 0;
  // Leaves on purpose; the last calls are compared as by report_wait(), and the others told. Non-blocking.
  virtual void leave(const std::vector<Call>& calls) = 0;

  virtual const std::vector<Introduction>& members() const = 0;  // by rank
  virtual std::string hub_name() const = 0;                      // for messages
};

// A fresh 32-byte secret from the system's generator.
std::array<std::byte, kSecretBytes> make_secret();

}  // namespace tutti
