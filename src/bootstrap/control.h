// ControlChannel: a rank's side of the control connection after the handshake (dial.h makes the handshake).
#pragma once

#include <deque>
#include <mutex>

#include "bootstrap/dial.h"

namespace tutti {

class ControlChannel final : public Control {
 public:
  ControlChannel(Acquaintance hub, const Introduction& self, const Config& config, const std::atomic<bool>& abort);
  ~ControlChannel() override;

  // Waits until the hub says who the members are.
  Status wait_for_group(Nanoseconds deadline);

  Result<std::vector<std::vector<std::byte>>> exchange(std::vector<std::byte> mine) override;
  ControlNews poll() override;
  int descriptor() const override { return over() ? -1 : connection_.descriptor(); }
  void report_failure(const Status& status) override;
  void report_wait(const LongWait& wait) override;
  void report_moving() override;
  void leave(const std::vector<Call>& calls) override;
  const std::vector<Introduction>& members() const override { return members_; }
  std::string hub_name() const override;

 private:
  void send(wire::Type type, wire::View payload);
  void read_news();
  Status take(const wire::Frame& frame);
  void handle_end();
  bool over() const { return over_.load(std::memory_order_relaxed); }
  void latch(const Status& failure);
  // Until `done` holds, the group has failed, the hub is gone, abort, or the deadline has passed by kGrace.
  Status wait_until(const std::function<bool()>& done, Nanoseconds deadline, std::string_view what);

  const Introduction self_;
  const Nanoseconds timeout_;
  const std::atomic<bool>& abort_;
  const std::string hub_host_;
  const int hub_pid_;

  // Guards connection_'s sending half and the two flags, which report_failure may use from any thread. The receiving
  // half belongs to the thread that uses the Control.
  std::mutex sending_;
  Connection connection_;
  bool reported_ = false;

  // The connection has ended. Relaxed: descriptor() may be asked while another thread reads, and then finds one that is
  // at its end; the connection itself lives on.
  std::atomic<bool> over_ = false;
  bool goodbye_ = false;  // the hub left on purpose
  bool leaving_ = false;  // this rank did
  std::optional<Status> failure_;
  ControlNews news_;  // not yet handed out
  std::vector<Introduction> members_;
  uint32_t exchange_sequence_ = 0;
  std::deque<wire::ExchangeResult> results_;
};

}  // namespace tutti
