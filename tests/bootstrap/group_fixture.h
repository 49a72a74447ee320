// A hub and ranks as threads on loopback.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <barrier>
#include <functional>
#include <thread>

#include "base/host.h"
#include "base/network_interface.h"
#include "bootstrap/rendezvous.h"

namespace tutti::test {

using Blobs = std::vector<std::vector<std::byte>>;
using ControlResult = Result<std::unique_ptr<Control>>;

inline Config loopback_config(double timeout_s = 20) {
  Config config;
  config.socket_ifname = {false, true, {"lo"}};
  config.socket_family = AddressFamily::ipv4;
  config.timeout = static_cast<Nanoseconds>(timeout_s * kSecond);
  return config;
}

inline Introduction introduction(uint32_t rank, uint32_t nranks) {
  // Different process ids, so that messages can be told apart although all ranks are threads of this process.
  return {Rank{rank}, Rank{nranks}, "host" + std::to_string(rank), 1000 + static_cast<int>(rank)};
}

inline std::unique_ptr<Hub> make_hub(const Config& config = loopback_config()) {
  Result<std::unique_ptr<Hub>> hub = Hub::create(config);
  EXPECT_TRUE(hub.ok()) << hub.status().message();
  return std::move(hub).value();
}

inline const std::atomic<bool>& never_aborted() {
  static const std::atomic<bool> never = false;
  return never;
}

inline ControlResult join(const MeetingPoint& point, const Introduction& self,
                          const Config& config = loopback_config()) {
  return Control::join(point, self, config, never_aborted());
}

// Joins all introductions at once, each in a thread of its own.
inline std::vector<ControlResult> join_all(const MeetingPoint& point, const std::vector<Introduction>& ranks,
                                           const Config& config = loopback_config()) {
  std::vector<std::optional<ControlResult>> results(ranks.size());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < ranks.size(); ++i)
      threads.emplace_back([&, i] { results[i].emplace(join(point, ranks[i], config)); });
  }
  std::vector<ControlResult> out;
  for (auto& result : results) out.push_back(*std::move(result));
  return out;
}

inline std::vector<Introduction> introductions(uint32_t nranks) {
  std::vector<Introduction> ranks;
  for (uint32_t r = 0; r < nranks; ++r) ranks.push_back(introduction(r, nranks));
  return ranks;
}

// A complete group, rank r at [r].
inline std::vector<std::unique_ptr<Control>> make_group(const MeetingPoint& point, uint32_t nranks,
                                                        const Config& config = loopback_config()) {
  std::vector<std::unique_ptr<Control>> controls;
  for (ControlResult& result : join_all(point, introductions(nranks), config)) {
    EXPECT_TRUE(result.ok()) << result.status().message();
    controls.push_back(result.ok() ? std::move(result).value() : nullptr);
  }
  return controls;
}

// Waits, for at most 20 s, until `done` says so of the news that came so far.
inline ControlNews news_until(Control& control, const std::function<bool(const ControlNews&)>& done) {
  ControlNews all;
  const Nanoseconds until = steady_now() + 20 * kSecond;
  while (steady_now() < until) {
    ControlNews news = control.poll();
    if (news.failure) all.failure = news.failure;
    all.departed.insert(all.departed.end(), news.departed.begin(), news.departed.end());
    if (done(all)) break;
    pollfd one{control.descriptor(), POLLIN, 0};
    ::poll(&one, 1, 50);
  }
  return all;
}

inline Status failure_of(Control& control) {
  const ControlNews news = news_until(control, [](const ControlNews& n) { return n.failure.has_value(); });
  return news.failure.value_or(Status());
}

inline std::vector<std::byte> blob(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace tutti::test
