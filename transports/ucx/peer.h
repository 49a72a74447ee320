// PeerEnd: the endpoint to one peer, and what is known of that peer's end.
#pragma once

#include <string>

#include "base/fd.h"
#include "transports/ucx/frames.h"
#include "transports/ucx/pending.h"
#include "transports/ucx/worker.h"

namespace tutti::ucx {

class PeerEnd {
 public:
  // `process`: the peer's id, on this host; 0: it is on another one. `address` is the peer's worker's.
  PeerEnd(Worker& worker, Rank self, Rank peer, std::vector<std::byte> address, int process, std::string description);
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
  // UCX holds back what a socket does not take, and does not say so. Once nothing is being sent any more, this asks the peer
  // whether all has arrived. (ucp_ep_flush asks in its own way, which over TCP fails an assertion of UCX 1.13 now and then:
  // PUT_TX_WAITING_ACK.)
  void confirm();
  // A peer that does not call Tutti does not answer; so it is not waited for beyond some looks.
  bool confirmed() const { return all_arrived() || (sending_ == 0 && looks_ >= kMostLooks); }
  bool all_arrived() const { return sending_ == 0 && clean_; }
  // Listens to the peer's questions and answers them, also those of a peer that leaves.
  void answer();
  void stop_listening();

  // Tells the peer that this rank leaves.
  void say_leaving();
  bool said_leaving() const { return !leaving_.under_way(); }

 private:
  bool process_ended() const;
  Status connected();
  void listen(Pending& arriving, Kind kind);
  void say(Pending& sending, Kind kind);

  Worker& worker_;
  const Rank self_, peer_;
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
  bool clean_ = true, asked_ = false;    // all is known to have arrived; a question followed the last message
  bool listening_ = false;               // to questions
  Pending asking_, answering_, leaving_;  // being sent
  Pending question_, answer_;             // being received
  char word_ = 0, heard_ = 0;             // of messages without content
};

}  // namespace tutti::ucx
