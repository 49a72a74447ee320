// The wire format: what was written reads back, and nothing shorter, longer or changed is taken for it.
#include "bootstrap/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "bootstrap/roster.h"

namespace tutti::wire {
namespace {

using ::testing::HasSubstr;

View view_of(std::string_view text) { return std::as_bytes(std::span(text)); }
Bytes bytes_of_text(std::string_view text) { return {view_of(text).begin(), view_of(text).end()}; }

const Introduction kSelf = {Rank{3}, Rank{7}, "alpha", 4711, 10203};

TEST(FrameParser, FindsFramesHoweverTheBytesArrive) {
  Bytes stream;
  for (int i = 0; i < 5; ++i) {
    const SharedFrame one = frame(Type::wait, Bytes(static_cast<size_t>(i) * 100, std::byte{7}));
    stream.insert(stream.end(), one->begin(), one->end());
  }
  for (size_t step : {size_t{1}, size_t{3}, size_t{97}, stream.size()}) {
    FrameParser parser(1000);
    size_t found = 0;
    for (size_t at = 0; at < stream.size(); at += step) {
      parser.append(View(stream).subspan(at, std::min(step, stream.size() - at)));
      for (;;) {
        const Result<std::optional<Frame>> next = parser.next();
        ASSERT_TRUE(next.ok());
        if (!next.value()) break;
        EXPECT_EQ(next.value()->type, Type::wait);
        EXPECT_EQ(next.value()->payload.size(), found * 100);
        ++found;
      }
    }
    EXPECT_EQ(found, 5u);
  }
}

TEST(FrameParser, RefusesALengthOverTheLimitBeforeThePayloadComes) {
  FrameParser parser(100);
  const SharedFrame big = frame(Type::hello, Bytes(101));
  parser.append(View(*big).first(kHeaderBytes));
  EXPECT_THAT(std::string(parser.next().status().message()), HasSubstr("at most 100 expected"));
  FrameParser web(100);
  web.append(view_of("GET / HTTP/1.1\r\n"));
  EXPECT_FALSE(web.next().ok());
}

// Every prefix and every extension of a payload must be refused by its decoder.
template <class Decode>
void expect_exact_length(const Bytes& payload, Decode decode) {
  ASSERT_TRUE(decode(View(payload)));
  for (size_t bytes = 0; bytes < payload.size(); ++bytes)
    EXPECT_FALSE(decode(View(payload).first(bytes))) << bytes << " of " << payload.size();
  Bytes longer = payload;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode(View(longer)));
}

TEST(Messages, HaveOneLengthOnly) {
  const Secret key{}, nonce{};
  const Bytes greeting = encode(Greeting{});
  const Bytes hello = encode(Hello{kFormat, nonce, kSelf, 5}, key, greeting).value();
  expect_exact_length(greeting, [](View v) { return decode_greeting(v).has_value(); });
  expect_exact_length(hello, [](View v) { return decode_hello(v).has_value(); });
  expect_exact_length(encode(Status(tuttiTimeout, "late")), [](View v) { return decode_status(v).has_value(); });
  expect_exact_length(encode(std::vector<Introduction>{kSelf, kSelf}),
                      [](View v) { return decode_members(v).has_value(); });
  expect_exact_length(encode(Contribution{1, 2, view_of("abc")}),
                      [](View v) { return decode_contribution(v).has_value(); });
  expect_exact_length(encode(ExchangeResult{1, {bytes_of_text("a"), {}}}),
                      [](View v) { return decode_exchange_result(v).has_value(); });
  const std::vector<Call> calls{{1, 2, "x"}, {2, 3, ""}};
  expect_exact_length(encode(std::span<const Call>(calls)), [](View v) { return decode_calls(v).has_value(); });
  expect_exact_length(encode(LongWait{"y", {Rank{3}}, calls}), [](View v) { return decode_wait(v).has_value(); });
  expect_exact_length(encode_rank(Rank{4}), [](View v) { return decode_rank(v).has_value(); });
}

TEST(Messages, RandomBytesAreNeverTakenNorBelieved) {
  Rng rng(1);
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes(rng.below(64));
    for (std::byte& b : bytes) b = static_cast<std::byte>(rng.below(4) == 0 ? rng.next() : 0);
    EXPECT_FALSE(decode_greeting(bytes).has_value());
    EXPECT_FALSE(decode_hello(bytes).has_value());
    // These may by chance be well formed; they must not read beyond their bytes or believe a length in them.
    (void)decode_members(bytes);
    (void)decode_exchange_result(bytes);
    (void)decode_contribution(bytes);
    (void)decode_status(bytes);
  }
}

TEST(Messages, AStatusOfSuccessOrOfAnUnknownCodeIsRefused) {
  for (uint32_t code : {0u, 9u, 0xffffffffu}) {
    Writer writer;
    writer.integer(code);
    writer.text("x");
    EXPECT_FALSE(decode_status(writer.bytes()).has_value()) << code;
  }
}

TEST(Proof, HoldsForTheKeyTheGreetingAndTheHelloItWasMadeFor) {
  const Secret key = make_secret();
  Greeting asked;
  asked.nonce = make_secret();
  const Bytes greeting = encode(asked);
  const Bytes hello = encode(Hello{kFormat, make_secret(), kSelf, 5}, key, greeting).value();
  EXPECT_TRUE(proves_key(hello, key, greeting).value());
  EXPECT_FALSE(proves_key(hello, make_secret(), greeting).value());
  asked.nonce = make_secret();
  EXPECT_FALSE(proves_key(hello, key, encode(asked)).value()) << "a replay to another greeting";
  for (size_t i = 0; i < hello.size(); ++i) {
    Bytes changed = hello;
    changed[i] ^= std::byte{1};
    EXPECT_FALSE(proves_key(changed, key, greeting).value()) << "byte " << i;
  }
  const Bytes welcome = encode(Welcome{"beta", 9}, key, greeting, hello).value();
  const auto read = decode_welcome(welcome, key, greeting, hello).value();
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->host, "beta");
  EXPECT_EQ(read->pid, 9);
  EXPECT_FALSE(decode_welcome(welcome, make_secret(), greeting, hello).value().has_value());
  EXPECT_FALSE(
      decode_welcome(welcome, key, greeting, encode(Hello{kFormat, make_secret(), kSelf, 5}, key, greeting).value())
          .value()
          .has_value());
  // The rank's own proof sent back is not the hub's.
  EXPECT_FALSE(decode_welcome(hello, key, greeting, hello).value().has_value());
}

TEST(Secrets, HmacAndSha256AreTheStandardOnes) {
  auto hex = [](View bytes) {
    std::string out;
    for (std::byte b : bytes) out += fmt::format("{:02x}", static_cast<unsigned>(b));
    return out;
  };
  EXPECT_EQ(hex(secret_from_text("abc").value()), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // RFC 4231, test case 1; HMAC pads a short key with zeros, so 20 bytes of 0x0b and 12 zeros are that key.
  Secret key{};
  std::fill_n(key.begin(), 20, std::byte{0x0b});
  EXPECT_EQ(hex(hmac_sha256(key, view_of("Hi There")).value()),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

TEST(Secrets, CompareAllBytesAndLengths) {
  EXPECT_TRUE(equal_in_constant_time(view_of("abc"), view_of("abc")));
  EXPECT_FALSE(equal_in_constant_time(view_of("abc"), view_of("abd")));
  EXPECT_FALSE(equal_in_constant_time(view_of("abc"), view_of("ab")));
}

TEST(AbsentRanks, AreListedInRuns) {
  EXPECT_EQ(absent_ranks({0, 1}, 3), "rank 2");
  EXPECT_EQ(absent_ranks({0, 1, 3, 4}, 8), "ranks 2, 5-7");
  EXPECT_EQ(absent_ranks({}, 1), "rank 0");
  EXPECT_EQ(absent_ranks({5}, 1'000'000'000), "ranks 0-4, 6-999999999");
}

}  // namespace
}  // namespace tutti::wire
