#include "plan/dump.h"

#include <iterator>

namespace tutti {
namespace {

using Out = std::back_insert_iterator<std::string>;

void put_slots(Out out, std::string_view word, uint16_t first, uint16_t count) {
  if (first == 0 && count == 0) return;
  fmt::format_to(out, " {} {}", word, first);
  if (count != 1) fmt::format_to(out, " count {}", count);
}

void put_walk(Out out, std::string_view word, Buffer buffer, const ChunkWalk& walk) {
  if (buffer == Buffer::none && walk == ChunkWalk{}) return;
  fmt::format_to(out, " {} {}[{}", word, name_of(buffer), walk.first);
  if (walk.step != 0) fmt::format_to(out, "{:+}", walk.step);
  fmt::format_to(out, "]");
}

template <class Int>
void put_number(Out out, std::string_view word, Int value, Int default_value) {
  if (value != default_value) fmt::format_to(out, " {} {}", word, value);
}

}  // namespace

std::string_view name_of(Buffer buffer) {
  constexpr std::string_view kNames[] = {"none", "in", "out", "scratch"};
  return kNames[static_cast<size_t>(buffer)];
}

std::string to_text(const Move& m) {
  std::string text = "move";
  const Out out(text);
  put_slots(out, "recv", m.recv_first, m.recv_count);
  put_walk(out, "load", m.load_from, m.load);
  put_number<uint16_t>(out, "at", m.local_pos, 0);
  put_walk(out, "store", m.store_to, m.store);
  put_slots(out, "send", m.send_first, m.send_count);
  put_number<uint16_t>(out, "span", m.span, 1);
  put_number<uint32_t>(out, "repeat", m.repeat, 1);
  put_number<int16_t>(out, "peer_step", m.peer_step, 0);
  if (m.complete != 0) text += " complete";
  return text;
}

std::string to_text(const Plan& plan) {
  std::string text = fmt::format("plan chunks {}", plan.chunks);
  if (plan.scratch_chunks > 0) text += fmt::format(" scratch {}", plan.scratch_chunks);
  text += '\n';
  for (const Lane& lane : plan.lanes) {
    text += "lane peers";
    for (const Peer& peer : lane.peers)
      text += fmt::format(" {}:{}", static_cast<uint32_t>(peer.rank), static_cast<uint16_t>(peer.channel));
    text += '\n';
    for (const Move& m : lane.moves) text += "  " + to_text(m) + '\n';
  }
  return text;
}

std::string to_text(std::span<const Plan> plans) {
  std::string text;
  for (size_t r = 0; r < plans.size(); ++r) text += fmt::format("rank {}\n", r) + to_text(plans[r]);
  return text;
}

}  // namespace tutti
