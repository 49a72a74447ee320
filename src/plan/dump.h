// Dump: plans as text that people read and parse_plan() reads back, as JSON and as a Graphviz graph.
//
//   plan chunks 4                                          # "scratch 4" follows where the plan has scratch
//   lane peers 3:0 1:0                                     # rank:channel of slots 0, 1, ...
//     move load in[0] send 1
//     move recv 0 load in[3-4] at 1 send 1 repeat 2        # chunk walk [first+step]; at: place of the local operand
//     move recv 0 load in[1] at 1 store out[1] send 1 complete
//
// A move's words may come in any order, each once. What is not said has Move's default. More words: `count 3` after a
// slot (so many peers from it on), `span 2`, `peer_step 1`, `load none[2]` (a walk that only gives the size). '#'
// begins a comment. Plans of several ranks are preceded by `rank 0`, `rank 1`, ...
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace tutti {

std::string to_text(const Plan& plan);
std::string to_text(std::span<const Plan> plans);
std::string to_text(const Move& move);  // one line, without indentation and newline

// to_text's inverse: parse_plan(to_text(p)) == p. Errors: tuttiInvalidArgument with line and column, both from 1.
Result<Plan> parse_plan(std::string_view text);
// Ranks must come in order from 0.
Result<std::vector<Plan>> parse_plans(std::string_view text);

// {"chunks":, "scratch_chunks":, "lanes": [{"peers": [{"rank":, "channel":}], "moves": [{...}]}]}; an array of those
// for several ranks. Fields of a move as in Move; defaults are left out.
std::string to_json(const Plan& plan);
std::string to_json(std::span<const Plan> plans);

// A digraph: a cluster per rank, a node per lane, an edge per FIFO with its number of messages per tile.
std::string to_dot(std::span<const Plan> plans);

std::string_view name_of(Buffer buffer);

}  // namespace tutti
