#include "comm/reshape.h"

#include <algorithm>

#include "base/bytes.h"
#include "comm/hub_registry.h"

namespace tutti {
namespace {

// Holds the parent's turn, so that no operation is under way on it meanwhile.
class Turn {
 public:
  explicit Turn(Communicator& comm) : comm_(comm) { comm.wait_until_turn(comm.issue()); }
  ~Turn() { comm_.end_turn(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Communicator& comm_;
};

std::vector<std::byte> bytes_of(const tuttiUniqueId& id) {
  const auto bytes = std::as_bytes(std::span(id.internal));
  return {bytes.begin(), bytes.end()};
}

Result<MeetingPoint> point_of(std::span<const std::byte> bytes) {
  tuttiUniqueId id;
  if (bytes.size() != sizeof id.internal) return fail(tuttiInternalError, "a unique id of {} bytes", bytes.size());
  std::memcpy(id.internal, bytes.data(), sizeof id.internal);
  return decode_unique_id(id);
}

Result<std::unique_ptr<Communicator>> join_child(const Communicator& parent, const MeetingPoint& point, Rank rank,
                                                 Rank nranks, std::string_view suffix, const ChildOptions& options) {
  CommunicatorOptions child;
  child.config = parent.config();
  if (options.timeout) child.config.timeout = *options.timeout;
  child.name = options.name.empty() ? fmt::format("{}/{}", parent.name(), suffix) : options.name;
  child.point = point;
  child.rank = rank;
  child.nranks = nranks;
  child.hub = take_hub(point);
  return Communicator::create(std::move(child));
}

// The plan by which the first survivor tells the others where to meet. On a channel of its own: after an error the
// others may hold half a message.
constexpr ChannelId kShrinkChannel{Transport::kMaxChannels - 1};

Plan shrink_plan(const std::vector<uint32_t>& survivors, Rank self) {
  Move move;
  Lane lane;
  if (self == survivors.front()) {
    for (uint32_t r : survivors)
      if (r != self) lane.peers.push_back({Rank{r}, kShrinkChannel});
    move.load_from = Buffer::in;
    move.send_count = static_cast<uint16_t>(lane.peers.size());
  } else {
    lane.peers.push_back({Rank{survivors.front()}, kShrinkChannel});
    move.store_to = Buffer::out;
    move.recv_count = 1;
  }
  lane.moves.push_back(move);
  return {1, 0, {lane}};
}

// Drives one execution on a parent that may have failed: only its own links count.
class Telling final : public Waitable {
 public:
  Telling(Communicator& parent, Execution& execution) : parent_(parent), execution_(execution) {}
  Result<Progress> poll() override {
    (void)parent_.wiring_in_turn().progress();  // links to the dead fail; those to the survivors are asked by poll()
    Result<Progress> progress = execution_.poll();
    if (progress.ok() && *progress == Progress::finished && !parent_.wiring_in_turn().drained()) return Progress::blocked;
    return progress;
  }
  bool prepare_wait(std::vector<pollfd>& descriptors) override {
    return parent_.wiring_in_turn().prepare_wait(descriptors);
  }
  void finish_wait() override { parent_.wiring_in_turn().finish_wait(); }
  Status check(Nanoseconds idle) override {
    if (idle < parent_.config().timeout) return {};
    return fail(tuttiTimeout, "shrink: not all ranks that remain have called it within the timeout");
  }

 private:
  Communicator& parent_;
  Execution& execution_;
};

}  // namespace

Result<std::unique_ptr<Communicator>> split(Communicator& parent, int color, int key, const ChildOptions& options) {
  struct Member {
    int color, key;
    uint32_t rank;
  };
  std::vector<Member> members;
  MeetingPoint point;
  uint32_t own_place = 0;
  {
    const Turn turn(parent);
    TUTTI_TRY(parent.error());
    ByteWriter writer;
    writer.put(color);
    writer.put(key);
    TUTTI_TRY_ASSIGN(const auto colors, parent.exchange(writer.take()));
    for (uint32_t r = 0; r < parent.nranks(); ++r) {
      ByteReader reader(colors[r]);
      const int their_color = reader.get<int>();
      const int their_key = reader.get<int>();
      if (their_color == color && color != TUTTI_SPLIT_NOCOLOR) members.push_back({their_color, their_key, r});
    }
    std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) { return a.key < b.key; });
    for (uint32_t i = 0; i < members.size(); ++i)
      if (members[i].rank == parent.rank()) own_place = i;
    std::vector<std::byte> id;
    if (!members.empty() && own_place == 0) {
      TUTTI_TRY_ASSIGN(const MeetingPoint own, open_hub(parent.config()));
      id = bytes_of(encode(own));
    }
    TUTTI_TRY_ASSIGN(const auto ids, parent.exchange(std::move(id)));
    if (members.empty()) return std::unique_ptr<Communicator>();
    TUTTI_TRY_ASSIGN(point, point_of(ids[members.front().rank]));
  }
  return join_child(parent, point, Rank{own_place}, Rank{static_cast<uint32_t>(members.size())},
                    fmt::format("color{}", color), options);
}

Result<std::unique_ptr<Communicator>> shrink(Communicator& parent, const std::vector<uint32_t>& excluded,
                                             const ChildOptions& options) {
  std::vector<uint32_t> survivors;
  for (uint32_t r = 0; r < parent.nranks(); ++r)
    if (!std::binary_search(excluded.begin(), excluded.end(), r)) survivors.push_back(r);
  const auto own = std::find(survivors.begin(), survivors.end(), uint32_t{parent.rank()});
  tuttiUniqueId id{};
  {
    const Turn turn(parent);
    if (own == survivors.begin()) {
      TUTTI_TRY_ASSIGN(const MeetingPoint point, open_hub(parent.config()));
      id = encode(point);
    }
    if (survivors.size() > 1) {
      TUTTI_TRY_ASSIGN(auto telling, Execution::create(shrink_plan(survivors, parent.rank()), Collective::broadcast,
                                                       parent.nranks(), parent.wiring_in_turn()));
      Binding binding;
      binding.in = binding.out = reinterpret_cast<std::byte*>(id.internal);
      const Layout layout({sizeof id.internal, {}, {}}, 1, 1, 1);
      binding.in_layout = binding.out_layout = layout;
      binding.fold.type = DataType::uint8;
      binding.tile_bytes = sizeof id.internal;
      // Ranks that exclude differently must not meet.
      binding.stamp.tag = survivors.size();
      for (uint32_t r : excluded) binding.stamp.tag = binding.stamp.tag * 0x9e3779b97f4a7c15ULL + r;
      telling->start(binding);
      Telling waitable(parent, *telling);
      TUTTI_TRY(wait_until_finished(waitable, parent.wait_policy(), SteadyClock::instance()));
    }
  }
  TUTTI_TRY_ASSIGN(const MeetingPoint point, decode_unique_id(id));
  return join_child(parent, point, Rank{static_cast<uint32_t>(own - survivors.begin())},
                    Rank{static_cast<uint32_t>(survivors.size())}, "shrunk", options);
}

Result<std::unique_ptr<Communicator>> grow(Communicator& parent, Rank nranks, const tuttiUniqueId* id,
                                           const ChildOptions& options) {
  MeetingPoint point;
  {
    const Turn turn(parent);
    TUTTI_TRY(parent.error());
    TUTTI_TRY_ASSIGN(const auto ids, parent.exchange(id ? bytes_of(*id) : std::vector<std::byte>{}));
    const auto given = std::find_if(ids.begin(), ids.end(), [](const auto& bytes) { return !bytes.empty(); });
    if (given == ids.end())
      return invalid_usage("tuttiCommGrow: no rank of the communicator passed an id; one must pass what "
                           "tuttiCommGetUniqueId gave");
    TUTTI_TRY_ASSIGN(point, point_of(*given));
  }
  return join_child(parent, point, parent.rank(), nranks, "grown", options);
}

}  // namespace tutti
