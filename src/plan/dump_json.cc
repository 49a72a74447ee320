#include <nlohmann/json.hpp>

#include "plan/dump.h"

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

Json slots(uint16_t first, uint16_t count) { return {{"first", first}, {"count", count}}; }

Json chunks(Buffer buffer, const ChunkWalk& walk) {
  Json json = {{"buffer", std::string(name_of(buffer))}, {"first", walk.first}};
  if (walk.step != 0) json["step"] = walk.step;
  return json;
}

Json json_of(const Move& m) {
  Json json = Json::object();
  if (m.recv_count > 0) json["recv"] = slots(m.recv_first, m.recv_count);
  if (m.load_from != Buffer::none || m.load != ChunkWalk{}) json["load"] = chunks(m.load_from, m.load);
  if (m.local_pos != 0) json["local_pos"] = m.local_pos;
  if (m.store_to != Buffer::none) json["store"] = chunks(m.store_to, m.store);
  if (m.send_count > 0) json["send"] = slots(m.send_first, m.send_count);
  if (m.span != 1) json["span"] = m.span;
  if (m.repeat != 1) json["repeat"] = m.repeat;
  if (m.peer_step != 0) json["peer_step"] = m.peer_step;
  if (m.complete != 0) json["complete"] = true;
  return json;
}

Json json_of(const Lane& lane) {
  Json peers = Json::array(), moves = Json::array();
  for (const Peer& peer : lane.peers)
    peers.push_back({{"rank", static_cast<uint32_t>(peer.rank)}, {"channel", static_cast<uint16_t>(peer.channel)}});
  for (const Move& m : lane.moves) moves.push_back(json_of(m));
  return {{"peers", std::move(peers)}, {"moves", std::move(moves)}};
}

Json json_of(const Plan& plan) {
  Json lanes = Json::array();
  for (const Lane& lane : plan.lanes) lanes.push_back(json_of(lane));
  return {{"chunks", plan.chunks}, {"scratch_chunks", plan.scratch_chunks}, {"lanes", std::move(lanes)}};
}

}  // namespace

std::string to_json(const Plan& plan) { return json_of(plan).dump(1) + '\n'; }

std::string to_json(std::span<const Plan> plans) {
  Json json = Json::array();
  for (const Plan& plan : plans) json.push_back(json_of(plan));
  return json.dump(1) + '\n';
}

}  // namespace tutti
