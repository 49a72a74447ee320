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
//   mapped link, shareable memory (tuttiMemAlloc)
//                      what is only loaded is lent to the peer; what is only stored is written by the peer (grants.cc)
//   put link in        a message that is only stored lands in its final place; operands of a fold land in staging
// Memory that a put link still reads is never overwritten: the link is told to copy the rest first (SendLink::detach),
// which adds no dependency between ranks to those the plan was proved with.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "engine/layout.h"
#include "engine/link_source.h"
#include "plan/machine.h"
#include "plan/plan.h"
#include "reduce/fold.h"

namespace tutti {

// What is bound to a plan at launch. The memory behind the layouts' block tables must outlive the operation.
struct Binding {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  Layout in_layout, out_layout;
  FoldSpec fold;
  uint64_t tile_bytes = 0;  // of one message; the chunks of a span share it
  // Messages from this size on are lent and granted where links can (grants.cc). Below it a copy costs less than the
  // misses on another place, and than waiting until it is read.
  uint64_t shortcut_bytes = 8192;
  bool streams_out = false; // `out` is too large to be read from the cache afterwards: store past it
  Stamp stamp;
};

// Memory that links may still be reading.
class SourceGuard {
 public:
  void add(SendEnd* end, uint64_t message, const std::byte* begin, size_t bytes);
  // Call before writing to [begin, begin + bytes): detaches the put links that still read it. What is lent has been read
  // when its memory is written again, though the news may still be on their way (grants.cc).
  void protect(const std::byte* begin, size_t bytes) {
    if (!readings_.empty()) detach_readers(begin, bytes);
  }
  // Nothing is being read any more.
  bool clear() { return readings_.empty() || forget_retired(); }
  // Who still reads.
  template <class Visit>
  void for_each_end(Visit visit) const {
    for (const Reading& r : readings_) visit(r.end);
  }

 private:
  struct Reading {
    SendEnd* end;
    uint64_t message;  // number of the message on its link
    const std::byte* begin;
    const std::byte* limit;
  };
  void detach_readers(const std::byte* begin, size_t bytes);
  bool forget_retired();

  std::vector<Reading> readings_;
};

class Execution {
 public:
  // Opens the links that the plan uses; `links` must outlive the execution.
  static Result<std::unique_ptr<Execution>> create(Plan plan, Collective collective, Rank nranks, LinkSource& links);
  ~Execution();

  // Binds an operation. The previous one must be finished.
  void start(const Binding& binding);
  // How often that was: tells whether a binding is still the last one.
  uint64_t bindings() const { return bindings_; }
  // The last binding again, with other buffers.
  void start_again(const std::byte* in, std::byte* out, const Stamp& stamp);
  // finished: the output is complete and no memory of the caller is being read any more. An error ends the execution;
  // asked again, it tells the error again.
  Result<Progress> poll();

  // A message that belongs to another operation arrived; poll() failed because of it.
  struct Mismatch {
    Rank peer;
    Stamp theirs;
    size_t bytes = 0, expected_bytes = 0;
  };
  const std::optional<Mismatch>& mismatch() const { return mismatch_; }
  const Stamp& stamp() const { return binding_.stamp; }
  const Grid& grid() const { return grid_; }

  // Whom the blocked lanes wait for, and how: for messages to people and for noticing departed peers.
  struct Wait {
    Rank peer;
    bool receiving = false;  // false: the peer has not taken what was sent
    bool operator==(const Wait&) const = default;
  };
  std::vector<Wait> waits() const;

 private:
  struct LaneState;
  class ByteMachine;
  Execution(Plan plan, Collective collective, Rank nranks);
  Status open_links(LinkSource& links);
  void rewind();
  bool takes_shortcuts() const;

  const Plan plan_;
  const Collective collective_;
  const Grid grid_;
  const Rank nranks_;
  const bool contributes_once_;
  uint32_t longest_span_ = 1;
  Binding binding_;
  uint64_t bindings_ = 0;
  uint64_t tile_count_ = 1;    // elements of one chunk that travel in one message
  uint64_t tiles_ = 1;
  uint64_t message_bytes_ = 0; // the largest message of this operation
  bool shortcuts_ = false;     // messages may be lent and granted
  std::vector<LaneState> lanes_;
  std::vector<std::byte> scratch_;
  SourceGuard guard_;
  std::optional<Mismatch> mismatch_;
};

}  // namespace tutti
