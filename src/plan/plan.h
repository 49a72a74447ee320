// Plan: what one rank does in a collective, as data.
//
// A plan is lanes of moves. It knows no sizes, types, operations or pointers; those are bound at launch, where the plan
// is run once for every *tile* of its chunks. docs/plan-ir.md tells the whole story; this header is the reference.
//
//   FIFO      One producer lane, one consumer lane: (sending rank, receiving rank, channel). Every message of a lane
//             goes through one. A rank may send to itself (loopback): that is how one lane hands data to another.
//   chunk     The plan's unit of data. Plan::chunks chunks make up the collective's *wide* buffer (see Grid).
//   tile      The part of a chunk that travels in one message. Empty tiles after the first are not sent.
//
// Values only: copyable, comparable, no I/O, no pointers.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/strong_int.h"
#include "base/types.h"

namespace tutti {

// The memory a move touches. `in` is the caller's send buffer, `out` its receive buffer (they may be the same memory
// where the collective allows in-place calls), `scratch` Plan::scratch_chunks tiles owned by the engine; scratch chunk s
// has the size of wide chunk s mod Plan::chunks, so partial results of chunk c belong in scratch chunk c, c + chunks, ...
enum class Buffer : uint8_t { none, in, out, scratch };

// chunk(i) = (first + i * step) mod Plan::chunks, for iteration i of a move. first < chunks; step may be negative.
struct ChunkWalk {
  int32_t first = 0;
  int32_t step = 0;
  bool operator==(const ChunkWalk&) const = default;
};

// The one instruction. Iteration i, 0 <= i < repeat:
//   result = fold(next message of each of the recv_count peers from slot recv_first + i * peer_step on,
//                 with the local operand load_from[load(i) .. +span) inserted as operand number local_pos)
//   if (complete) result = finish(result)       -- the division of tuttiAvg; nothing for other operations
//   if (store_to)  store_to[store(i) .. +span) = result
//   send result to each of the send_count peers from slot send_first + i * peer_step on
// Slots are taken mod Lane::peers.size(); the chunks of a span wrap mod Plan::chunks. A message carries `span` chunks. Its size is that of chunks load(i).. when
// load_from is a buffer or store_to is none, else that of chunks store(i)...
// A move with no operand (recv_count 0, load_from none) is illegal.
struct Move {
  uint16_t recv_first = 0, recv_count = 0;
  uint16_t send_first = 0, send_count = 0;
  uint16_t local_pos = 0;
  uint16_t span = 1;
  int16_t peer_step = 0;
  Buffer load_from = Buffer::none;
  Buffer store_to = Buffer::none;
  ChunkWalk load, store;
  uint32_t repeat = 1;
  uint32_t complete = 0;  // 1: the result holds every rank's contribution, so this is where the reduction is finished
  bool operator==(const Move&) const = default;
};
static_assert(sizeof(Move) == 40 && std::is_trivially_copyable_v<Move>);

// The other end of a FIFO, as a lane sees it.
struct Peer {
  Rank rank;
  ChannelId channel;
  bool operator==(const Peer&) const = default;
};

// One sequential process.
struct Lane {
  std::vector<Peer> peers;
  std::vector<Move> moves;
  bool operator==(const Lane&) const = default;
};

struct Plan {
  uint32_t chunks = 1;
  uint32_t scratch_chunks = 0;
  std::vector<Lane> lanes;
  bool operator==(const Plan&) const = default;
};

// No chunk of `in` is loaded twice.
bool contributes_once(const Plan& plan);

// What an algorithm is asked for. `lanes` is how many copies of its pattern share the bytes side by side (>= 1); a plan
// may hold more lanes than that, where one copy of the pattern needs several.
struct Shape {
  Collective collective = Collective::all_reduce;
  Rank nranks{1};
  Rank root{0};
  uint32_t lanes = 1;
  uint32_t ranks_per_node = 1;  // where ranks stand node by node, so many on each; else 1
  bool operator==(const Shape&) const = default;
};

// How chunks divide a buffer. A buffer is `blocks` blocks (one per rank where ranks own blocks, else 1), each divided
// into plan.chunks / wide_blocks chunks of nearly equal size. Chunk c lies in block c / per_block at place c % per_block.
//   collective               in blocks   out blocks   wide
//   all_reduce, reduce,
//   broadcast, send, recv    1           1            either
//   all_gather, gather       1           n            out
//   reduce_scatter, scatter  n           1            in
//   all_to_all               n           n            either
struct Grid {
  uint32_t in_blocks, out_blocks, chunks_per_block;
};
Grid grid_of(Collective collective, Rank nranks, uint32_t chunks);

// Chunks that may be named in a buffer of this plan: in_blocks * chunks_per_block and so on; scratch_chunks for scratch.
uint32_t chunk_count(const Plan& plan, const Grid& grid, Buffer buffer);

}  // namespace tutti
