// The rendezvous' wire format: frames over TCP between the hub and each rank.
//
// A frame is 8 bytes of header (payload bytes: 4, type: 1, zero: 3) and the payload. Integers are little-endian; a
// string or blob is its length (4) and its bytes. Nothing that a peer says is believed before it is checked: a length
// is held against the limit of the connection's state before a byte is stored, and memory grows only with bytes that
// came.
//
//   hub                                   rank
//   greeting: magic, versions, nonce  -->
//                                     <-- hello: magic, versions, nonce, who I am, HMAC(key, greeting + hello)
//   welcome: who I am, HMAC(key, all) -->                          or refusal: code, text; then the hub closes
//   group: all introductions          -->                          when the last rank has come
//
// then, in any order: contribution / exchange_result, failure_report / failure, wait / heard, moving,
// leaving / departed, goodbye.
// Both HMACs cover both nonces, so neither can be replayed, and different labels, so neither can be reflected. The hub
// speaks first: a rank that finds a stranger on a port tells it nothing. After the handshake frames are plain; the key
// keeps strangers out, it does not hide what ranks say.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/secret.h"

namespace tutti::wire {

using Bytes = std::vector<std::byte>;
using View = std::span<const std::byte>;

constexpr uint64_t kMagic = 0x0a1a4954545554ffULL;  // "\xffTUTTI\x1a\n" on the wire
constexpr uint16_t kFormat = 1;                     // of the handshake; the library's version travels beside it
constexpr size_t kHeaderBytes = 8;
constexpr size_t kMaxHandshakeBytes = 1024;  // payload of a frame before the peer is known
constexpr size_t kMaxBlobBytes = 4 << 20;    // one rank's part of an exchange
constexpr size_t kMaxFromRankBytes = kMaxBlobBytes + 1024;
constexpr size_t kMaxFromHubBytes = 1 << 30;  // an exchange's result; about 1000 ranks x 1 MiB
constexpr size_t kMaxTextBytes = 16 << 10;    // messages for people; longer ones are cut

enum class Type : uint8_t {
  // from the hub
  greeting = 1,
  welcome,
  refusal,
  group,
  exchange_result,
  failure,
  departed,
  heard,
  goodbye,
  // from a rank
  hello = 32,
  contribution,
  failure_report,
  wait,
  moving,
  leaving
};

// ---- bytes ----

class Writer {
 public:
  template <class Int>
  void integer(Int value) {
    for (size_t i = 0; i < sizeof value; ++i)
      bytes_.push_back(static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i)));
  }
  void raw(View bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void blob(View bytes) {
    integer(static_cast<uint32_t>(bytes.size()));
    raw(bytes);
  }
  void text(std::string_view text) { blob(std::as_bytes(std::span(text.substr(0, kMaxTextBytes)))); }
  const Bytes& bytes() const { return bytes_; }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

// Reads what a Writer wrote. Running past the end makes every later read zero or empty and ok() false.
class Reader {
 public:
  explicit Reader(View bytes) : rest_(bytes) {}
  template <class Int>
  Int integer() {
    uint64_t value = 0;
    const View bytes = raw(sizeof(Int));
    for (size_t i = 0; i < bytes.size(); ++i) value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
    return static_cast<Int>(value);
  }
  View raw(size_t count) {
    if (!ok_ || count > rest_.size()) {
      ok_ = false;
      return {};
    }
    const View bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return bytes;
  }
  View blob() { return raw(integer<uint32_t>()); }
  std::string text() {
    const View bytes = blob();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  bool ok() const { return ok_; }
  bool finished() const { return ok_ && rest_.empty(); }

 private:
  View rest_;
  bool ok_ = true;
};

// ---- frames ----

struct Frame {
  Type type{};
  View payload;  // valid until the parser is given more bytes
};

// Frames are shared, since most go to every rank.
using SharedFrame = std::shared_ptr<const Bytes>;
SharedFrame frame(Type type, View payload = {});

class FrameParser {
 public:
  explicit FrameParser(size_t max_payload_bytes) : max_payload_bytes_(max_payload_bytes) {}
  void set_max_payload_bytes(size_t bytes) { max_payload_bytes_ = bytes; }
  void append(View bytes);
  // The next complete frame, or nothing yet. tuttiRemoteError when what came cannot be a frame; then it stays broken.
  Result<std::optional<Frame>> next();

 private:
  Bytes buffer_;
  size_t consumed_ = 0;
  size_t max_payload_bytes_;
};

// ---- messages ----

struct Greeting {
  uint16_t format = kFormat;
  uint32_t version = TUTTI_VERSION_CODE;
  Secret nonce{};
};
Bytes encode(const Greeting& greeting);
std::optional<Greeting> decode_greeting(
    View payload);  // nothing: not a hub. Another format decodes as far as `version`.

struct Hello {
  uint16_t format = kFormat;
  Secret nonce{};
  Introduction self;
  Nanoseconds timeout = 0;  // how long this rank will wait for the others from now
};
// The payload, proof included; `greeting` is the payload that it answers.
Result<Bytes> encode(const Hello& hello, const Secret& key, View greeting);
std::optional<Hello> decode_hello(View payload);  // nothing: not a rank; does not check the proof
Result<bool> proves_key(View hello, const Secret& key, View greeting);

struct Welcome {
  std::string host;
  int pid = 0;
};
Result<Bytes> encode(const Welcome& welcome, const Secret& key, View greeting, View hello);
Result<std::optional<Welcome>> decode_welcome(View payload, const Secret& key, View greeting, View hello);

// refusal, failure, failure_report
Bytes encode(const Status& status);
std::optional<Status> decode_status(View payload);

Bytes encode(std::span<const Introduction> members);
std::optional<std::vector<Introduction>> decode_members(View payload);

struct Contribution {
  uint32_t sequence = 0;
  Nanoseconds timeout = 0;
  View blob;
};
Bytes encode(const Contribution& contribution);
std::optional<Contribution> decode_contribution(View payload);

struct ExchangeResult {
  uint32_t sequence = 0;
  std::vector<Bytes> blobs;  // by rank
};
Bytes encode(const ExchangeResult& result);
std::optional<ExchangeResult> decode_exchange_result(View payload);

Bytes encode(const LongWait& wait);
std::optional<LongWait> decode_wait(View payload);

Bytes encode(std::span<const Call> calls);  // leaving
std::optional<std::vector<Call>> decode_calls(View payload);

Bytes encode_rank(Rank rank);  // departed
std::optional<Rank> decode_rank(View payload);

}  // namespace tutti::wire
