// Execution: the host engine. Runs one rank's plan on bytes.
//
// An Execution is made once per plan (it holds the opened link ends and staging memory) and started once per operation;
// starting and polling allocate nothing after the first use of a size. poll() performs every step that can be done now and
// returns; it never blocks, starts no thread, reads no clock. The wait loop (wait.h), a stream's worker or the simulator
// drives it.
//
// Bytes are moved as few times as the links allow:
//   mapped link out    the fold writes straight into the receiver's slot
//   put link out       the message leaves from the caller's buffer where the move stores or only loads; else from staging
//   put link in        a message that is only stored lands in its final place; operands of a fold land in staging
// Memory that a put link still reads is never overwritten: the link is told to copy the rest first (SendLink::detach),
// which adds no dependency between ranks to those the plan was proved with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/layout.h"
#include "plan/machine.h"
#include "plan/plan.h"
#include "reduce/fold.h"
#include "transports/transport.h"

namespace tutti {

// What is bound to a plan at launch.
struct Binding {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  Layout in_layout, out_layout;
  FoldSpec fold;
  uint64_t tile_bytes = 0;  // of one message; chunks of a span share it
  Stamp stamp;
};

// Gives the opened ends of FIFOs; owned by the communicator's wiring.
class LinkSource {
 public:
  virtual ~LinkSource() = default;
  virtual Result<SendLink*> send_link(const Peer& peer) = 0;
  virtual Result<RecvLink*> recv_link(const Peer& peer) = 0;
};

class Execution {
 public:
  // Opens the links that the plan uses. The plan is copied.
  static Result<std::unique_ptr<Execution>> create(Plan plan, Collective collective, LinkSource& links);
  ~Execution();

  // Requires that the last operation is finished or abandoned for good (links keep half-sent messages otherwise).
  void start(const Binding& binding);
  // finished: the output is complete and no source is being read any more.
  Result<Progress> poll();

  // A message arrived that belongs to another operation; poll() then failed.
  struct Mismatch {
    Rank peer;
    Stamp theirs;
    size_t bytes = 0, expected_bytes = 0;
  };
  const Mismatch* mismatch() const { return mismatch_ ? &*mismatch_ : nullptr; }

  // The ranks that the blocked lanes wait for, and how: for messages to people and for noticing departed peers.
  struct Wait {
    Rank peer;
    bool receiving = false;  // false: the peer has not taken what was sent
  };
  std::vector<Wait> waits() const;

  const Plan& plan() const { return plan_; }

 private:
  struct LaneState;
  friend struct ByteMachine;
  Execution(Plan plan, Collective collective);
  Status open_links(LinkSource& links);

  Plan plan_;
  Grid grid_;
  uint32_t longest_span_ = 1;
  Binding binding_;
  uint64_t tile_count_ = 1;  // elements of a chunk in one message
  uint64_t tiles_ = 1;
  std::vector<LaneState> lanes_;
  std::vector<std::byte> scratch_;
  std::optional<Mismatch> mismatch_;
};

}  // namespace tutti
