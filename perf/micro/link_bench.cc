// Links by themselves: a message of a size goes to another thread and back, over shm and over tcp, spinning. The
// counter `one_way` is half of a round trip. Two threads on two processors, bound to them.
#include <benchmark/benchmark.h>
#include <sched.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "../peers/loop.h"
#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"
#include "transports/transport.h"

namespace tutti {
namespace {

using Make = Result<std::unique_ptr<Transport>> (*)(const TransportContext&);

Result<std::unique_ptr<Transport>> make_tcp(const TransportContext& context) { return make_tcp_transport(context); }

// One rank of two: its transport, and a link each way.
struct End {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<SendLink> out;
  std::unique_ptr<RecvLink> in;
  std::vector<std::byte> sent, received;
  uint64_t puts = 0;
  Stamp stamp{.tag = 1, .sequence = 0};

  // Sends `sent`. False when `stop` was set before there was room, or on a failure.
  bool send(const std::atomic<bool>& stop) {
    if (out->mapped()) return send_mapped(stop);
    const ConstPiece piece{sent.data(), sent.size()};
    for (;;) {
      const auto taken = out->put({&piece, 1}, stamp);
      if (!taken.ok()) return false;
      if (taken.value()) break;
      if (!move_on(stop)) return false;
    }
    for (++puts; out->retired() < puts;)
      if (!move_on(stop)) return false;
    return true;
  }

  bool send_mapped(const std::atomic<bool>& stop) {
    for (;;) {
      const auto room = out->claim(sent.size());
      if (!room.ok()) return false;
      if (std::byte* to = room.value().data) {
        std::memcpy(to, sent.data(), sent.size());
        out->post(sent.size(), stamp);
        return true;
      }
      if (!move_on(stop)) return false;
    }
  }

  // A mapped message is looked at where it lies, as the engine's folds do.
  bool receive(const std::atomic<bool>& stop) {
    const MutablePiece piece{received.data(), received.size()};
    for (;;) {
      const auto arrival = in->receive({&piece, 1}, received.size(), stamp);
      if (!arrival.ok() || arrival.value().state == Arrival::State::mismatch) return false;
      if (arrival.value().state == Arrival::State::arrived) break;
      if (!move_on(stop)) return false;
    }
    in->release();
    return true;
  }

  // The flag says only that nobody waits any more; it orders nothing.
  bool move_on(const std::atomic<bool>& stop) {
    return transport->progress().ok() && !stop.load(std::memory_order_relaxed);
  }
};

Status make_ends(Make make, size_t bytes, End (&ends)[2]) {
  Config config;
  config.socket_ifname = {.exclude = false, .exact = true, .names = {"lo"}};
  std::vector<std::vector<std::byte>> addresses;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    TUTTI_TRY_ASSIGN(ends[rank].transport, make({.config = config,
                                                 .key = std::vector<std::byte>(32, std::byte{0x42}),
                                                 .self = Rank{rank},
                                                 .nranks = Rank{2}}));
    addresses.push_back(ends[rank].transport->address());
  }
  for (uint32_t rank = 0; rank < 2; ++rank) {
    End& end = ends[rank];
    TUTTI_TRY(end.transport->set_peers(addresses, {"rank 0", "rank 1"}));
    TUTTI_TRY_ASSIGN(end.out, end.transport->open_send(Rank{1 - rank}, ChannelId{0}));
    TUTTI_TRY_ASSIGN(end.in, end.transport->open_recv(Rank{1 - rank}, ChannelId{0}));
    end.sent.resize(bytes);
    end.received.resize(bytes);
  }
  return {};
}

void ping_pong(benchmark::State& state, Make make) {
  End ends[2];
  const Status made = make_ends(make, static_cast<size_t>(state.range(0)), ends);
  if (!made.ok()) return state.SkipWithError(made.c_str());
  cpu_set_t all;
  sched_getaffinity(0, sizeof all, &all);
  std::atomic<bool> stop{false};
  std::thread echo([&] {
    bench::pin_to(1);
    while (ends[1].receive(stop) && ends[1].send(stop)) {
    }
  });
  bench::pin_to(0);
  const std::atomic<bool> never{false};
  for (auto _ : state) {
    if (!ends[0].send(never) || !ends[0].receive(never)) {
      state.SkipWithError("the link failed");
      break;
    }
  }
  stop.store(true, std::memory_order_relaxed);  // join() orders what follows
  echo.join();
  sched_setaffinity(0, sizeof all, &all);
  state.counters["one_way"] = benchmark::Counter(2 * static_cast<double>(state.iterations()),
                                                 benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

BENCHMARK_CAPTURE(ping_pong, shm, make_shm_transport)
    ->Arg(8)
    ->Arg(1 << 10)
    ->Arg(16 << 10)
    ->Arg(128 << 10)
    ->UseRealTime();
BENCHMARK_CAPTURE(ping_pong, tcp, make_tcp)->Arg(8)->Arg(1 << 10)->Arg(16 << 10)->Arg(128 << 10)->UseRealTime();

}  // namespace
}  // namespace tutti
