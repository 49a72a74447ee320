#include "bootstrap/wire.h"

#include <algorithm>

namespace tutti::wire {
namespace {

constexpr std::string_view kHelloLabel = "tutti hello";
constexpr std::string_view kWelcomeLabel = "tutti welcome";
constexpr size_t kDigestBytes = std::tuple_size_v<Digest>;

// HMAC over a label and parts, each with its length so that bytes cannot move from one part to the next.
Result<Digest> proof(const Secret& key, std::string_view label, std::initializer_list<View> parts) {
  Writer message;
  message.text(label);
  for (View part : parts) message.blob(part);
  return hmac_sha256(key, message.bytes());
}

Secret read_secret(Reader& reader) {
  Secret secret{};
  const View bytes = reader.raw(secret.size());
  std::copy(bytes.begin(), bytes.end(), secret.begin());
  return secret;
}

void write(Writer& writer, const Introduction& who) {
  writer.integer<uint32_t>(who.rank);
  writer.integer<uint32_t>(who.nranks);
  writer.integer(static_cast<uint32_t>(who.pid));
  writer.integer(static_cast<uint32_t>(who.version));
  // A host name has at most 64 characters on Linux; the cut keeps a hello within kMaxHandshakeBytes whatever comes.
  writer.text(std::string_view(who.host).substr(0, 255));
}

Introduction read_introduction(Reader& reader) {
  Introduction who;
  who.rank = Rank{reader.integer<uint32_t>()};
  who.nranks = Rank{reader.integer<uint32_t>()};
  who.pid = static_cast<int>(reader.integer<uint32_t>());
  who.version = static_cast<int>(reader.integer<uint32_t>());
  who.host = reader.text();
  return who;
}

template <class Message>
std::optional<Message> if_finished(const Reader& reader, Message message) {
  if (!reader.finished()) return std::nullopt;
  return message;
}

}  // namespace

SharedFrame frame(Type type, View payload) {
  Writer writer;
  writer.integer(static_cast<uint32_t>(payload.size()));
  writer.integer(static_cast<uint32_t>(type));  // the type and three zero bytes
  writer.raw(payload);
  return std::make_shared<const Bytes>(writer.take());
}

void FrameParser::append(View bytes) {
  // Consumed bytes are dropped here rather than in next(), which has handed out a view of them.
  if (consumed_ > 0) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(consumed_));
    consumed_ = 0;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<Frame>> FrameParser::next() {
  const View pending = View(buffer_).subspan(consumed_);
  if (pending.size() < kHeaderBytes) return std::optional<Frame>();
  Reader reader(pending);
  const auto payload_bytes = reader.integer<uint32_t>();
  const auto type = reader.integer<uint32_t>();
  if (type == 0 || type > 0xff || payload_bytes > max_payload_bytes_)
    return fail(tuttiRemoteError, "received what is not a frame of Tutti (type {}, {} bytes, at most {} expected)",
                type, payload_bytes, max_payload_bytes_);
  if (pending.size() < kHeaderBytes + payload_bytes) return std::optional<Frame>();
  consumed_ += kHeaderBytes + payload_bytes;
  return std::optional(Frame{static_cast<Type>(type), pending.subspan(kHeaderBytes, payload_bytes)});
}

Bytes encode(const Greeting& greeting) {
  Writer writer;
  writer.integer(kMagic);
  writer.integer(greeting.format);
  writer.integer(greeting.version);
  writer.raw(greeting.nonce);
  return writer.take();
}

std::optional<Greeting> decode_greeting(View payload) {
  Reader reader(payload);
  if (reader.integer<uint64_t>() != kMagic) return std::nullopt;
  Greeting greeting;
  greeting.format = reader.integer<uint16_t>();
  greeting.version = reader.integer<uint32_t>();
  if (greeting.format != kFormat) return reader.ok() ? std::optional(greeting) : std::nullopt;
  greeting.nonce = read_secret(reader);
  return if_finished(reader, greeting);
}

Result<Bytes> encode(const Hello& hello, const Secret& key, View greeting) {
  Writer writer;
  writer.integer(kMagic);
  writer.integer(hello.format);
  writer.raw(hello.nonce);
  write(writer, hello.self);
  writer.integer(hello.timeout);
  TUTTI_TRY_ASSIGN(const Digest digest, proof(key, kHelloLabel, {greeting, writer.bytes()}));
  writer.raw(digest);
  return writer.take();
}

std::optional<Hello> decode_hello(View payload) {
  Reader reader(payload);
  if (reader.integer<uint64_t>() != kMagic) return std::nullopt;
  Hello hello;
  hello.format = reader.integer<uint16_t>();
  hello.nonce = read_secret(reader);
  hello.self = read_introduction(reader);
  hello.timeout = reader.integer<Nanoseconds>();
  reader.raw(kDigestBytes);
  return if_finished(reader, hello);
}

Result<bool> proves_key(View hello, const Secret& key, View greeting) {
  if (hello.size() < kDigestBytes) return false;
  const View body = hello.first(hello.size() - kDigestBytes);
  TUTTI_TRY_ASSIGN(const Digest expected, proof(key, kHelloLabel, {greeting, body}));
  return equal_in_constant_time(expected, hello.last(kDigestBytes));
}

Result<Bytes> encode(const Welcome& welcome, const Secret& key, View greeting, View hello) {
  Writer writer;
  writer.text(welcome.host);
  writer.integer(static_cast<uint32_t>(welcome.pid));
  TUTTI_TRY_ASSIGN(const Digest digest, proof(key, kWelcomeLabel, {greeting, hello, writer.bytes()}));
  writer.raw(digest);
  return writer.take();
}

Result<std::optional<Welcome>> decode_welcome(View payload, const Secret& key, View greeting, View hello) {
  if (payload.size() < kDigestBytes) return std::optional<Welcome>();
  const View body = payload.first(payload.size() - kDigestBytes);
  TUTTI_TRY_ASSIGN(const Digest expected, proof(key, kWelcomeLabel, {greeting, hello, body}));
  if (!equal_in_constant_time(expected, payload.last(kDigestBytes))) return std::optional<Welcome>();
  Reader reader(body);
  Welcome welcome;
  welcome.host = reader.text();
  welcome.pid = static_cast<int>(reader.integer<uint32_t>());
  return if_finished(reader, welcome);
}

Bytes encode(const Status& status) {
  Writer writer;
  writer.integer(static_cast<uint32_t>(status.code()));
  writer.text(status.message());
  return writer.take();
}

std::optional<Status> decode_status(View payload) {
  Reader reader(payload);
  const auto code = reader.integer<uint32_t>();
  std::string text = reader.text();
  if (!reader.finished() || code == tuttiSuccess || code >= tuttiNumResults) return std::nullopt;
  return Status(static_cast<tuttiResult_t>(code), std::move(text));
}

Bytes encode(std::span<const Introduction> members) {
  Writer writer;
  writer.integer(static_cast<uint32_t>(members.size()));
  for (const Introduction& member : members) write(writer, member);
  return writer.take();
}

std::optional<std::vector<Introduction>> decode_members(View payload) {
  Reader reader(payload);
  const auto count = reader.integer<uint32_t>();
  std::vector<Introduction> members;
  for (uint32_t i = 0; i < count && reader.ok(); ++i) members.push_back(read_introduction(reader));
  return if_finished(reader, std::move(members));
}

Bytes encode(const Contribution& contribution) {
  Writer writer;
  writer.integer(contribution.sequence);
  writer.integer(contribution.timeout);
  writer.blob(contribution.blob);
  return writer.take();
}

std::optional<Contribution> decode_contribution(View payload) {
  Reader reader(payload);
  Contribution contribution;
  contribution.sequence = reader.integer<uint32_t>();
  contribution.timeout = reader.integer<Nanoseconds>();
  contribution.blob = reader.blob();
  return if_finished(reader, contribution);
}

Bytes encode(const ExchangeResult& result) {
  Writer writer;
  writer.integer(result.sequence);
  writer.integer(static_cast<uint32_t>(result.blobs.size()));
  for (const Bytes& blob : result.blobs) writer.blob(blob);
  return writer.take();
}

std::optional<ExchangeResult> decode_exchange_result(View payload) {
  Reader reader(payload);
  ExchangeResult result;
  result.sequence = reader.integer<uint32_t>();
  const auto count = reader.integer<uint32_t>();
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    const View blob = reader.blob();
    result.blobs.emplace_back(blob.begin(), blob.end());
  }
  return if_finished(reader, std::move(result));
}

namespace {

void write(Writer& writer, std::span<const Call> calls) {
  writer.integer(static_cast<uint32_t>(calls.size()));
  for (const Call& call : calls) {
    writer.integer(call.sequence);
    writer.integer(call.tag);
    writer.text(call.what);
  }
}

std::vector<Call> read_calls(Reader& reader) {
  const auto count = reader.integer<uint32_t>();
  std::vector<Call> calls;
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    Call& call = calls.emplace_back();
    call.sequence = reader.integer<uint32_t>();
    call.tag = reader.integer<uint64_t>();
    call.what = reader.text();
  }
  return calls;
}

}  // namespace

Bytes encode(std::span<const Call> calls) {
  Writer writer;
  write(writer, calls);
  return writer.take();
}

std::optional<std::vector<Call>> decode_calls(View payload) {
  Reader reader(payload);
  return if_finished(reader, read_calls(reader));
}

Bytes encode(const LongWait& wait) {
  Writer writer;
  writer.text(wait.what);
  writer.integer(static_cast<uint32_t>(wait.peers.size()));
  for (const Rank peer : wait.peers) writer.integer<uint32_t>(peer);
  write(writer, wait.calls);
  return writer.take();
}

std::optional<LongWait> decode_wait(View payload) {
  Reader reader(payload);
  LongWait wait;
  wait.what = reader.text();
  const auto count = reader.integer<uint32_t>();
  for (uint32_t i = 0; i < count && reader.ok(); ++i) wait.peers.emplace_back(reader.integer<uint32_t>());
  wait.calls = read_calls(reader);
  return if_finished(reader, std::move(wait));
}

Bytes encode_rank(Rank rank) {
  Writer writer;
  writer.integer<uint32_t>(rank);
  return writer.take();
}

std::optional<Rank> decode_rank(View payload) {
  Reader reader(payload);
  const Rank rank{reader.integer<uint32_t>()};
  return if_finished(reader, rank);
}

}  // namespace tutti::wire
