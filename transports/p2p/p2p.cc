#include "transports/p2p/p2p.h"

#include <unistd.h>

#include <algorithm>
#include <bit>

#include "base/bytes.h"
#include "base/host.h"
#include "base/log.h"
#include "base/rng.h"

namespace tutti {
namespace {

// What lies where in a section. Counters that different ranks write are on lines of their own.
constexpr size_t kPostedAt = 0;      // written by the peer: messages from it
constexpr size_t kConsumedAt = 128;  // written by the peer: what it has consumed of those to it
constexpr size_t kCountsAt = 256;    // of the owner's kernels: sent, received
constexpr size_t kNotesAt = 384;
constexpr size_t kLinesAt = 512;
constexpr size_t kSlotsAt = kLinesAt + dev::kDepth * dev::kLineSlotBytes;
static_assert(kNotesAt + dev::kDepth * sizeof(dev::SlotNote) <= kLinesAt);
static_assert(kSlotsAt % 128 == 0);

// Bytes of a slot: 256 KiB up to 8 ranks, less beyond, 16 KiB at least.
uint64_t slot_bytes_for(Rank nranks, const Config& config) {
  const uint64_t by_ranks =
      std::clamp<uint64_t>((uint64_t{2} << 20) / std::bit_ceil(uint32_t{nranks}), 16 << 10, 256 << 10);
  constexpr uint64_t kUnit = 128;
  return (std::max(config.tile_bytes.value_or(0), by_ranks) + kUnit - 1) / kUnit * kUnit;
}

// What a rank writes at the end of its memory before others map it, and they must find there: a path that returns other
// bytes (as PCIe does behind some I/O memory management units and virtual switches) is not taken.
struct Greeting {
  uint64_t words[8];
  bool operator==(const Greeting&) const = default;
};
Greeting greeting_of(std::span<const std::byte> key, Rank rank) {
  uint64_t seed = uint32_t{rank} + uint64_t{1};
  for (const std::byte b : key) seed = seed * 0x100000001b3ULL ^ std::to_integer<uint64_t>(b);
  Rng rng(seed);
  Greeting greeting;
  for (uint64_t& word : greeting.words) word = rng.next();
  return greeting;
}

struct Address {
  std::string host, kind;
  int32_t node = 0, index = 0;
  uint32_t user = 0;
  uint64_t slot_bytes = 0;
  std::vector<std::byte> exported;
};

std::vector<std::byte> encode(const Address& address) {
  ByteWriter writer;
  writer.put_string(address.host);
  writer.put_string(address.kind);
  writer.put(address.node);
  writer.put(address.index);
  writer.put(address.user);
  writer.put(address.slot_bytes);
  writer.put_bytes(address.exported);
  return writer.take();
}

bool decode(std::span<const std::byte> bytes, Address& address) {
  ByteReader reader(bytes);
  address.host = reader.get_string();
  address.kind = reader.get_string();
  address.node = reader.get<int32_t>();
  address.index = reader.get<int32_t>();
  address.user = reader.get<uint32_t>();
  address.slot_bytes = reader.get<uint64_t>();
  address.exported = reader.get_bytes();
  return reader.complete();
}

class P2p final : public P2pTransport {
 public:
  P2p(const TransportContext& context, Device& device, Address address, std::byte* memory)
      : self_(context.self),
        nranks_(context.nranks),
        key_(context.key),
        device_(device),
        address_(std::move(address)),
        memory_(memory) {
    parse_path_class(context.config.p2p_level, farthest_);
  }
  ~P2p() override { device_.free(memory_); }

  std::string_view name() const override { return "p2p"; }
  std::vector<std::byte> address() const override { return encode(address_); }
  size_t max_message_bytes() const override { return address_.slot_bytes; }

  Status set_peers(std::vector<std::vector<std::byte>> addresses, std::vector<std::string> descriptions) override {
    peers_.resize(nranks_);
    for (uint32_t r = 0; r < nranks_; ++r) {
      peers_[r].description = std::move(descriptions[r]);
      if (r == self_) peers_[r].sections = device_.kernel_address(memory_);
      else reach(Rank{r}, addresses[r]);
    }
    return {};
  }
  std::string unreachable_reason(Rank peer) const override {
    return peer < peers_.size() ? peers_[peer].unreachable : "there is no such rank";
  }
  Result<std::unique_ptr<SendLink>> open_send(Rank peer, ChannelId) override { return not_for_hosts(peer); }
  Result<std::unique_ptr<RecvLink>> open_recv(Rank peer, ChannelId) override { return not_for_hosts(peer); }

  Status progress() override { return {}; }
  bool drained() const override { return true; }
  bool prepare_wait(std::vector<pollfd>&) override { return true; }
  void finish_wait() override {}
  // The hub hears of a rank's death before anything here could.
  Status check_peers() override { return {}; }

  Result<dev::SendFifo> send_fifo(const Peer& peer) override {
    TUTTI_TRY(check(peer));
    std::byte* const theirs = section(peer.rank, self_, peer.channel);
    std::byte* const ours = section(self_, peer.rank, peer.channel);
    return dev::SendFifo{theirs + kSlotsAt,
                         theirs + kLinesAt,
                         reinterpret_cast<dev::SlotNote*>(theirs + kNotesAt),
                         reinterpret_cast<uint64_t*>(theirs + kPostedAt),
                         reinterpret_cast<const uint64_t*>(ours + kConsumedAt),
                         reinterpret_cast<uint64_t*>(ours + kCountsAt),
                         address_.slot_bytes};
  }
  Result<dev::RecvFifo> recv_fifo(const Peer& peer) override {
    TUTTI_TRY(check(peer));
    std::byte* const theirs = section(peer.rank, self_, peer.channel);
    std::byte* const ours = section(self_, peer.rank, peer.channel);
    dev::RecvFifo fifo;
    fifo.slots = ours + kSlotsAt;
    fifo.line_slots = ours + kLinesAt;
    fifo.notes = reinterpret_cast<const dev::SlotNote*>(ours + kNotesAt);
    fifo.posted = reinterpret_cast<const uint64_t*>(ours + kPostedAt);
    fifo.consumed = reinterpret_cast<uint64_t*>(theirs + kConsumedAt);
    fifo.count = reinterpret_cast<uint64_t*>(ours + kCountsAt + sizeof(uint64_t));
    fifo.slot_bytes = address_.slot_bytes;
    return fifo;
  }

  static size_t section_bytes(uint64_t slot_bytes) { return kSlotsAt + dev::kDepth * slot_bytes; }
  // Behind all sections.
  static size_t greeting_offset(Rank nranks, uint64_t slot_bytes) {
    return size_t{nranks} * kMaxChannels * section_bytes(slot_bytes);
  }

 private:
  struct PeerMemory {
    std::string description;
    std::string unreachable;
    std::byte* sections = nullptr;  // the kernels' view of its allocation
  };

  void reach(Rank rank, std::span<const std::byte> bytes) {
    PeerMemory& peer = peers_[rank];
    Address theirs;
    if (bytes.empty()) {
      peer.unreachable = "its buffers are in host memory";
    } else if (!decode(bytes, theirs)) {
      peer.unreachable = "it runs another version of Tutti";
    } else if (theirs.kind != address_.kind) {
      peer.unreachable = fmt::format("its device is of another kind, {}", theirs.kind);
    } else if (theirs.host != address_.host || theirs.node != address_.node) {
      peer.unreachable = "its device is in another node";
    } else if (theirs.user != address_.user) {
      peer.unreachable = fmt::format("it runs as another user (id {}, this rank as {})", theirs.user, address_.user);
    } else if (theirs.slot_bytes != address_.slot_bytes) {
      peer.unreachable = "its slots differ in size; TUTTI_TILE must be the same on all ranks";
    } else if (const PathClass path = device_.path_to(theirs.index); path > farthest_) {
      peer.unreachable = fmt::format("the path from GPU {} to GPU {} is {}, and TUTTI_P2P_LEVEL allows {} at the farthest",
                                     address_.index, theirs.index, name_of(path), name_of(farthest_));
    } else if (auto imported = device_.import_memory(theirs.exported); !imported.ok()) {
      peer.unreachable = imported.status().message();
    } else if (const Status proof = prove(rank, *imported); !proof.ok()) {
      peer.unreachable = proof.message();
      log(LogLevel::warn, Subsystem::init, static_cast<int>(self_), "p2p is not used with {}: {}", peer.description,
          peer.unreachable);
    } else {
      peer.sections = *imported;
    }
  }

  // Reads what the peer has written.
  Status prove(Rank peer, const std::byte* sections) {
    Greeting read{};
    TUTTI_TRY(device_.copy(&read, sections + greeting_offset(nranks_, address_.slot_bytes), sizeof read));
    if (read == greeting_of(key_, peer)) return {};
    return fail(tuttiSystemError, "its memory, mapped here, reads as other bytes than it wrote; see PCIe access control (ACS) and the "
                "I/O memory management unit, which `tutti doctor` looks at");
  }

  Status check(const Peer& peer) const {
    if (peer.rank >= peers_.size() || peer.channel >= kMaxChannels || !peers_[peer.rank].sections)
      return fail(tuttiInternalError, "there is no p2p FIFO with rank {}, channel {}", uint32_t{peer.rank},
                  uint16_t{peer.channel});
    return {};
  }
  Status not_for_hosts(Rank peer) const {
    return fail(tuttiInternalError, "p2p FIFOs (here with rank {}) are for kernels", uint32_t{peer});
  }
  // In the memory of `owner`: what it has to do with `other`.
  std::byte* section(Rank owner, Rank other, ChannelId channel) const {
    return peers_[owner].sections + (size_t{other} * kMaxChannels + channel) * section_bytes(address_.slot_bytes);
  }

  const Rank self_, nranks_;
  const std::vector<std::byte> key_;
  Device& device_;
  const Address address_;
  std::byte* const memory_;
  PathClass farthest_ = PathClass::sys;
  std::vector<PeerMemory> peers_;
};

}  // namespace

Result<std::unique_ptr<P2pTransport>> make_p2p_transport(const TransportContext& context, Device& device) {
  Address address;
  TUTTI_TRY_ASSIGN(address.host, host_identity());
  address.kind = device.kind();
  address.node = device.node();
  address.index = device.index();
  address.user = ::geteuid();
  address.slot_bytes = slot_bytes_for(context.nranks, context.config);
  const size_t greeting_at = P2p::greeting_offset(context.nranks, address.slot_bytes);
  TUTTI_TRY_ASSIGN(std::byte * memory, device.allocate(greeting_at + sizeof(Greeting)));
  const Greeting greeting = greeting_of(context.key, context.self);
  const Status written = device.copy(memory + greeting_at, &greeting, sizeof greeting);
  auto exported = written.ok() ? device.export_memory(memory) : Result<std::vector<std::byte>>(written);
  if (!exported.ok()) {
    device.free(memory);
    return exported.status();
  }
  address.exported = std::move(exported).value();
  return std::unique_ptr<P2pTransport>(std::make_unique<P2p>(context, device, std::move(address), memory));
}

}  // namespace tutti
