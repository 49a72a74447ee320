// PeerEnd: the endpoint to one peer, and what is known of that peer's end.
#pragma once

#include <string>

#include "base/fd.h"
#include "transports/ucx/pending.h"
#include "transports/ucx/worker.h"

namespace tutti::ucx {

class PeerEnd {
 public:
  // `process`: the peer's id, on this host; 0: it is on another one. `address` is the peer's worker's.
  PeerEnd(Worker& worker, Rank self, std::vector<std::byte> address, int process, std::string description);
  ~PeerEnd() { close(); }
  PeerEnd(const PeerEnd&) = delete;
  PeerEnd& operator=(const PeerEnd&) = delete;

  // Makes the endpoint. It fails where the two workers have no way in common; nothing is sent yet.
  Status connect();
  // Gives up what is still on its way.
  void close();
  // close() ends what is on its way. Else UCX goes on with it, and fails an assertion of its own when its worker ends
  // before.
  bool ends_by_force() const { return guarded_; }

  // Sends a message of the memory given, which must stay until `sending` has ended. Connects if need be.
  Status send(Pending& sending, const void* data, size_t bytes, uint64_t tag);
  // Whether messages can still come or be taken, and why not. Messages that came before the end can still be had.
  const Status& gone() const { return gone_; }
  void has_left();
  // It has ended without saying so, as far as this host knows.
  bool lost() const { return !left_ && (!gone_.ok() || process_ended()); }
  // A look at the peer's process.
  void look();
  // A descriptor that is readable when the peer's process has ended; negative where there is none.
  int process_descriptor() const { return process_.get(); }

  // Something was handed to UCX, or it has finished with something.
  void began_sending() { ++sending_; }
  void ended_sending() { --sending_; }
  // Something that was sent has failed, for another reason than the peer's end: no later message can follow it.
  void failed_sending(ucs_status_t status);
  // Once nothing is being sent any more, pushes out what UCX still holds. A flush also waits for ways that UCX has begun to
  // open and nothing was sent by, until the peer calls Tutti again; so it is not waited for beyond some looks.
  void flush();
  bool flushed() const { return sending_ == 0 && (clean_ || looks_ >= kMostLooks); }

  // Tells the peer that this rank leaves.
  void say_leaving();
  bool said_leaving() const { return !leaving_.under_way(); }

 private:
  bool process_ended() const;

  Worker& worker_;
  const Rank self_;
  const std::vector<std::byte> address_;
  const std::string description_;
  ucp_ep_h endpoint_ = nullptr;
  Fd process_;
  Status gone_;
  bool left_ = false;
  uint32_t sending_ = 0;
  bool guarded_ = true;  // UCX watches the peer itself
  static constexpr uint32_t kMostLooks = 1000;
  uint32_t looks_ = 0;                   // since the last message
  bool clean_ = true, flushing_ = false;  // nothing is left to flush; a flush was begun after the last message
  Pending flush_, leaving_;
  char word_ = 0;  // of a message without content
};

}  // namespace tutti::ucx
