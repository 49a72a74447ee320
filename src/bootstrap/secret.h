// Secrets: random keys and nonces, and the proof of knowing a key. Pure functions over OpenSSL, thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/status.h"
#include "bootstrap/rendezvous.h"

namespace tutti {

using Secret = std::array<std::byte, kSecretBytes>;  // a key or a nonce
using Digest = std::array<std::byte, 32>;            // a SHA-256 value

// 32 bytes from getrandom(2). tuttiSystemError where the system has none to give.
Result<Secret> random_secret();
// HMAC-SHA256 (RFC 2104).
Result<Digest> hmac_sha256(const Secret& key, std::span<const std::byte> message);
// Takes as long for a wrong first byte as for a wrong last one.
bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b);
// SHA-256 of the text. A key made so is as secret as the text is.
Result<Secret> secret_from_text(std::string_view text);

}  // namespace tutti
