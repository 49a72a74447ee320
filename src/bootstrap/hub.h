// HubThread: the hub's sockets and its one thread. Made by Hub::create; the judgement is Roster's.
#pragma once

#include <poll.h>

#include <atomic>
#include <list>
#include <thread>

#include "base/network_interface.h"
#include "bootstrap/connection.h"
#include "bootstrap/roster.h"

namespace tutti {

class HubThread final : public Hub {
 public:
  // `point` is what ranks are told; its port is the listener's.
  HubThread(Listener listener, Fd wake, MeetingPoint point);
  ~HubThread() override;
  Status start();

  MeetingPoint meeting_point() const override { return point_; }
  // Relaxed: a hint that stands alone; no other data is read on the strength of it.
  bool finished() const override { return finished_.load(std::memory_order_relaxed); }

 private:
  enum class Phase : uint8_t {
    stranger,  // greeted, has proved nothing yet
    member,    // in the roster
    guest,     // proved the key, but is not in the roster: was told why, or is being told
    closing    // to be closed once everything is sent, or at once
  };
  struct Peer {
    Peer(Fd fd, Nanoseconds now) : connection(std::move(fd), wire::kMaxHandshakeBytes), since(now) {}
    Connection connection;
    wire::Bytes greeting;  // the payload that was sent; part of both proofs
    Nanoseconds since;     // entered its phase
    Phase phase = Phase::stranger;
    Rank rank;
    bool ended = false;
  };

  void run();
  void serve_until_told();
  int wait_ms(Nanoseconds now) const;
  void collect_descriptors(std::vector<pollfd>& descriptors) const;
  void check_deadlines(Nanoseconds now);
  void remove_ended();

  void accept_some(Nanoseconds now);
  void out_of_descriptors(int error_number);
  Status check_descriptor_limit(uint32_t nranks) const;
  void greet(Fd fd, Nanoseconds now);

  void serve(Peer& peer, Nanoseconds now);
  Status handle_frame(Peer& peer, const wire::Frame& frame, Nanoseconds now);  // an error: the peer is not of ours
  Status handle_hello(Peer& peer, wire::View payload, Nanoseconds now);
  void seat(Peer& peer, const wire::Hello& hello, Nanoseconds now);
  Status handle_member_frame(Peer& peer, const wire::Frame& frame, Nanoseconds now);
  void handle_end(Peer& peer);
  void refuse(Peer& peer, const Status& status);
  void leave(Peer& peer, const std::vector<Call>& calls);
  void hear_wait(Peer& peer, LongWait wait);

  void fail_all(const Status& status);  // tells everybody, once
  void send_to_members(const wire::SharedFrame& frame, const Peer* except = nullptr);
  void say_goodbye();

  Listener listener_;
  Fd wake_;  // an eventfd: written once, to stop
  const MeetingPoint point_;
  const std::string host_;
  std::list<Peer> peers_;
  size_t strangers_ = 0;
  Nanoseconds accept_again_at_ = 0;
  Roster roster_;
  bool formed_ = false;
  std::optional<Status> failure_;
  std::atomic<bool> finished_ = false;
  std::thread thread_;
};

}  // namespace tutti
