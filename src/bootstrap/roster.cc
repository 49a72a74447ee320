#include "bootstrap/roster.h"

#include <algorithm>

namespace tutti {
namespace {

constexpr Nanoseconds kNever = ~Nanoseconds{0};
// Calls further back than this are forgotten: more than ranks report of their past.
constexpr int32_t kRememberedCalls = 64;

double seconds(Nanoseconds time) { return static_cast<double>(time) / static_cast<double>(kSecond); }

std::string version_text(int code) { return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100); }

Nanoseconds later(Nanoseconds now, Nanoseconds wait) { return wait > kNever - now ? kNever : now + wait; }

std::set<uint32_t> keys_of(const auto& map) {
  std::set<uint32_t> keys;
  for (const auto& [key, value] : map) keys.insert(keys.end(), key);
  return keys;
}

}  // namespace

std::string describe(const Introduction& who) {
  return fmt::format("rank {} (host {}, pid {})", static_cast<uint32_t>(who.rank), who.host, who.pid);
}

std::string absent_ranks(const std::set<uint32_t>& present, uint32_t nranks) {
  std::string list;
  size_t absent = 0;
  auto add_gap = [&](uint32_t first, uint32_t end) {
    if (first >= end) return;
    absent += end - first;
    list += list.empty() ? "" : ", ";
    list += end - first == 1 ? std::to_string(first) : fmt::format("{}-{}", first, end - 1);
  };
  uint32_t next = 0;
  for (uint32_t rank : present) {
    add_gap(next, rank);
    next = rank + 1;
  }
  add_gap(next, nranks);
  return fmt::format("{} {}", absent == 1 ? "rank" : "ranks", list);
}

Status Roster::arrive(const Introduction& who, Nanoseconds now, Nanoseconds timeout) {
  if (who.version != TUTTI_VERSION_CODE)
    return invalid_usage(
        "{} runs Tutti {}, the process that holds the meeting point runs Tutti {}; use one version on "
        "all ranks",
        describe(who), version_text(who.version), version_text(TUTTI_VERSION_CODE));
  if (!members_.empty() && who.nranks != nranks_)
    return invalid_usage("{} says there are {} ranks, but {} says there are {}; give all ranks the same number",
                         describe(who), static_cast<uint32_t>(who.nranks), describe(members_.begin()->second), nranks_);
  if (who.rank >= who.nranks)
    return invalid_usage("{} is out of range: there are {} ranks, so they are numbered from 0 to {}", describe(who),
                         static_cast<uint32_t>(who.nranks), static_cast<int64_t>(who.nranks) - 1);
  const auto [place, is_new] = members_.emplace(who.rank, who);
  if (!is_new)
    return invalid_usage(
        "rank {} was claimed twice: by host {}, pid {} and by host {}, pid {}; give every process a rank "
        "of its own",
        static_cast<uint32_t>(who.rank), place->second.host, place->second.pid, who.host, who.pid);
  if (members_.size() == 1) {
    first_arrival_ = now;
    nranks_ = who.nranks;
  }
  deadline_ = std::min(deadline_, later(now, timeout));
  return {};
}

Nanoseconds Roster::deadline() const { return members_.empty() || complete() ? kNever : deadline_; }

Status Roster::missing(Nanoseconds now) const {
  return fail(
      tuttiTimeout,
      "waited {:.1f} s for all {} ranks to come, but {} did not; see whether they run and can reach this host, or "
      "give more time with TUTTI_TIMEOUT",
      seconds(now - first_arrival_), nranks_, absent_ranks(keys_of(members_), nranks_));
}

std::vector<Introduction> Roster::members() const {
  std::vector<Introduction> members;
  for (const auto& [rank, who] : members_) members.push_back(who);
  return members;
}

Status Roster::left_in_exchange(Rank rank) const {
  return fail(tuttiRemoteError, "{} left while other ranks exchange addresses with it", describe(member(rank)));
}

Status Roster::leave(Rank rank) {
  left_.insert(rank);
  if (!parts_.empty() && !parts_.contains(rank)) return left_in_exchange(rank);
  return {};
}

Status Roster::contribute(Rank rank, const wire::Contribution& part, Nanoseconds now) {
  if (part.sequence != exchange_sequence_ || parts_.contains(rank))
    return fail(tuttiInternalError, "{} is in exchange {} while the group is in exchange {}", describe(member(rank)),
                part.sequence, exchange_sequence_);
  if (parts_.empty()) exchange_began_ = now;
  parts_.emplace(rank, wire::Bytes(part.blob.begin(), part.blob.end()));
  exchange_deadline_ = std::min(exchange_deadline_, later(now, part.timeout));
  for (uint32_t gone : left_)
    if (!parts_.contains(gone)) return left_in_exchange(Rank{gone});
  return {};
}

std::optional<wire::ExchangeResult> Roster::take_exchange() {
  if (!complete() || parts_.size() != members_.size()) return std::nullopt;
  wire::ExchangeResult result;
  result.sequence = exchange_sequence_++;
  for (auto& [rank, blob] : parts_) result.blobs.push_back(std::move(blob));
  parts_.clear();
  exchange_deadline_ = kNever;
  return result;
}

Status Roster::exchange_missing(Nanoseconds now) const {
  return fail(tuttiTimeout,
              "waited {:.1f} s for {} in an exchange of all ranks; a collective call is missing there, or it "
              "is stuck",
              seconds(now - exchange_began_), absent_ranks(keys_of(parts_), nranks_));
}

Status Roster::compare(Rank rank, const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    // By difference, since the numbers wrap.
    std::erase_if(calls_, [&](const auto& entry) {
      return static_cast<int32_t>(call.sequence - entry.first) > kRememberedCalls;
    });
    // Whoever told of it first stands for all, who said the same.
    const auto& [other, theirs] = calls_.try_emplace(call.sequence, rank, call).first->second;
    if (theirs.tag != call.tag)
      return invalid_usage(
          "ranks disagree about operation {}: {} is in {}, but {} is in {}; all ranks must make the same calls in the "
          "same order",
          call.sequence, describe(member(other)), theirs.what, describe(member(rank)), call.what);
  }
  return {};
}

std::string Roster::behind_wait_of(Rank rank) const {
  std::set<uint32_t> seen{rank}, silent;
  std::string chain;
  for (std::vector<uint32_t> next{rank}; !next.empty();) {
    const auto wait = waits_.find(next.back());
    next.pop_back();
    if (wait == waits_.end()) continue;
    for (const Rank peer : wait->second.peers) {
      if (peer >= nranks_ || !seen.insert(peer).second) continue;
      next.push_back(peer);
      const auto theirs = waits_.find(peer);
      if (theirs == waits_.end())
        silent.insert(peer);
      else
        chain += fmt::format("; {} waits too, in {}", describe(member(peer)), theirs->second.what);
    }
  }
  // Everybody waits: what each is in is all there is to tell. Otherwise those who do not are what matters.
  if (silent.empty()) return chain;
  std::string names;
  for (const uint32_t r : silent) names += (names.empty() ? "" : ", ") + describe(member(Rank{r}));
  return fmt::format("; it all depends on {}, which {} not said to be waiting in a call: stopped, stuck elsewhere, or {} "
                     "not made this call",
                     names, silent.size() == 1 ? "has" : "have", silent.size() == 1 ? "has" : "have");
}

}  // namespace tutti
