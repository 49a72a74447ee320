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
    if (progress.ok() && *progress == Progress::finished && !parent_.wiring_in_turn().drained())
      return Progress::blocked;
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

// What the first survivor tells: the meeting point, and whom it excludes (a byte a rank), since ranks that exclude
// differently must not meet.
std::vector<std::byte> invitation(const MeetingPoint& point, const std::vector<uint32_t>& excluded, uint32_t nranks) {
  std::vector<std::byte> told = bytes_of(encode(point));
  told.resize(told.size() + nranks);
  for (const uint32_t r : excluded) told[sizeof(tuttiUniqueId) + r] = std::byte{1};
  return told;
}

std::string list_of_excluded(std::span<const std::byte> flags) {
  std::string list;
  for (size_t r = 0; r < flags.size(); ++r)
    if (flags[r] != std::byte{0}) list += fmt::format("{}{}", list.empty() ? "" : ", ", r);
  return list.empty() ? "nobody" : list;
}

// The point that the first of the survivors gives (which is `point` on that one).
Result<MeetingPoint> tell_survivors(Communicator& parent, const std::vector<uint32_t>& survivors,
                                    const std::vector<uint32_t>& excluded, const MeetingPoint& point) {
  TUTTI_TRY_ASSIGN(auto telling, Execution::create(shrink_plan(survivors, parent.rank()), Collective::broadcast,
                                                   parent.nranks(), parent.wiring_in_turn()));
  const std::vector<std::byte> mine = invitation(point, excluded, parent.nranks());
  std::vector<std::byte> told = mine;
  Binding binding;
  binding.in = binding.out = told.data();
  binding.in_layout = binding.out_layout = Layout({told.size(), {}, {}}, 1, 1, 1);
  binding.fold.type = DataType::uint8;
  binding.tile_bytes = told.size();
  binding.stamp.tag = told.size();
  telling->start(binding);
  Telling waitable(parent, *telling);
  TUTTI_TRY(wait_until_finished(waitable, parent.wait_policy(), SteadyClock::instance()));
  const auto ours = std::span(mine).subspan(sizeof(tuttiUniqueId));
  const auto theirs = std::span(told).subspan(sizeof(tuttiUniqueId));
  if (!std::ranges::equal(ours, theirs))
    return invalid_usage(
        "tuttiCommShrink: rank {} excludes {}, rank {} excludes {}; all ranks that remain must exclude the "
        "same",
        parent.rank(), list_of_excluded(ours), survivors.front(), list_of_excluded(theirs));
  return point_of(std::span(told).first(sizeof(tuttiUniqueId)));
}

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
  MeetingPoint point;
  {
    const Turn turn(parent);
    if (own == survivors.begin()) {
      TUTTI_TRY_ASSIGN(point, open_hub(parent.config()));
    }
    if (survivors.size() > 1) {
      TUTTI_TRY_ASSIGN(point, tell_survivors(parent, survivors, excluded, point));
    }
  }
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
      return invalid_usage(
          "tuttiCommGrow: no rank of the communicator passed an id; one must pass what "
          "tuttiCommGetUniqueId gave");
    TUTTI_TRY_ASSIGN(point, point_of(*given));
  }
  return join_child(parent, point, parent.rank(), nranks, "grown", options);
}

}  // namespace tutti
