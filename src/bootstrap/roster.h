// Roster: who has come, what each contributes and says; the hub's judgement without its sockets.
//
// Every function that finds something wrong returns the Status that all ranks are to be told; it names ranks, hosts and
// processes. Not thread-safe (the hub's thread owns it); costs O(log n) or O(n) as said.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/wire.h"

namespace tutti {

// "rank 2 (host alpha, pid 123)"
std::string describe(const Introduction& who);
// The numbers in [0, nranks) that are not in `present`, in words: "rank 3", "ranks 2, 5-7". O(present).
std::string absent_ranks(const std::set<uint32_t>& present, uint32_t nranks);

class Roster {
 public:
  // Somebody has proved the key and introduced himself; waits until now + timeout for the others.
  Status arrive(const Introduction& who, Nanoseconds now, Nanoseconds timeout);
  bool complete() const { return !members_.empty() && members_.size() == nranks_; }
  // When the first of those present loses patience; the largest value while nobody is there or nobody is missing.
  Nanoseconds deadline() const;
  Status missing(Nanoseconds now) const;  // tuttiTimeout naming who has not come

  const Introduction& member(Rank rank) const { return members_.at(rank); }
  std::vector<Introduction> members() const;
  uint32_t nranks() const { return nranks_; }
  bool has_left(Rank rank) const { return left_.contains(rank); }
  bool all_left() const { return complete() && left_.size() == members_.size(); }

  // A rank of the complete group has left, on purpose or by dying. Fails when others wait for it in an exchange.
  Status leave(Rank rank);

  // A part of the current exchange. Fails when ranks do not exchange in step or when a rank that has left is missing.
  Status contribute(Rank rank, const wire::Contribution& part, Nanoseconds now);
  // The complete exchange, once: then the next begins.
  std::optional<wire::ExchangeResult> take_exchange();
  Nanoseconds exchange_deadline() const { return exchange_deadline_; }
  Status exchange_missing(Nanoseconds now) const;

  // A rank's last calls. Fails when another rank knows one of them under another tag. O(1) each.
  Status compare(Rank rank, const std::vector<Call>& calls);
  // A rank has waited long, or no longer does.
  void wait(Rank rank, LongWait wait) { waits_[rank] = std::move(wait); }
  void moving(Rank rank) { waits_.erase(rank); }
  // Why `rank` may wait, in words: follows who waits for whom, and names those that do not say that they wait. Empty
  // when nothing is known. O(n).
  std::string behind_wait_of(Rank rank) const;

 private:
  Status left_in_exchange(Rank rank) const;

  uint32_t nranks_ = 0;
  std::map<uint32_t, Introduction> members_;
  std::set<uint32_t> left_;
  Nanoseconds first_arrival_ = 0;
  Nanoseconds deadline_ = ~Nanoseconds{0};

  uint32_t exchange_sequence_ = 0;
  std::map<uint32_t, wire::Bytes> parts_;
  Nanoseconds exchange_began_ = 0;
  Nanoseconds exchange_deadline_ = ~Nanoseconds{0};

  std::map<uint32_t, std::pair<Rank, Call>> calls_;  // by sequence number: the first who told of it
  std::map<uint32_t, LongWait> waits_;               // by rank
};

}  // namespace tutti
