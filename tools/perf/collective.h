// PerfCollective: what one of the programs measures, as one row. Everything else is shared.
//
// The *window* of a rank is the memory of one call: `send` elements to read, `recv` elements to write, and, in place,
// one stretch of max(send, recv) elements in which the send part begins at rank * in_place_send_stride and the receive
// part at rank * in_place_recv_stride.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "perf/element.h"
#include "tutti/tutti.h"

namespace tutti::perf {

// One size of one table row. `count` is what the collective's C function takes.
struct Job {
  int rank = 0, nranks = 1, root = 0;  // root 0 where the collective has none
  size_t count = 0;
};

struct Window {
  size_t send = 0, recv = 0;
  size_t in_place_send_stride = 0, in_place_recv_stride = 0;
};

// What a stretch of the receive part holds after the call. Where no block lies, memory must be as it was.
struct Block {
  enum class From : uint8_t { rank, reduction } from;
  size_t recv_first, count;
  int source = 0;           // the rank it comes from; unused for reductions
  size_t source_first = 0;  // place in that rank's send part (reductions: in every rank's)
};

struct Call {
  const void* send;
  void* recv;
  Job job;
  tuttiDataType_t type;
  tuttiRedOp_t op;
  tuttiComm_t comm;
  tuttiStream_t stream;
};

struct PerfCollective {
  std::string_view program;  // "allreduce_perf"
  std::string_view title;    // in the first lines
  const char* name;          // for tuttiCommQueryChoice: "all_reduce"
  bool reduces, rooted, in_place;
  bool split_by_ranks;  // count is the size's share of one rank: size / type / nranks
  Window (*window)(size_t count, size_t nranks);
  std::vector<Block> (*blocks)(const Job& job);
  double (*bus_factor)(double nranks);  // busbw / algbw
  tuttiResult_t (*call)(const Call& call);
};

// Several rows share these.
inline double all_but_own_share(double n) { return (n - 1) / n; }
inline double whole(double) { return 1; }

// Runs the program: parses, joins, measures, checks, reports. The exit status of main.
int perf_main(int argc, char** argv, const PerfCollective& collective);

}  // namespace tutti::perf
