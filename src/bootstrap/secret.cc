#include "bootstrap/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <stdexcept>

namespace tutti {
namespace {

// A hub's thread works until its process is gone, but OpenSSL would take its own memory apart in exit(), under the thread's
// feet. Counts for the first in the process that initialises OpenSSL.
void keep_openssl_until_the_end() {
  static const int once = ::OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  (void)once;  // without it, the first use initialises
}

}  // namespace

Result<Secret> random_secret() {
  Secret secret;
  size_t filled = 0;
  while (filled < secret.size()) {
    const ssize_t got = ::getrandom(secret.data() + filled, secret.size() - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("getrandom", errno);
    filled += static_cast<size_t>(got);
  }
  return secret;
}

Secret make_secret() {
  Result<Secret> secret = random_secret();
  // A predictable key would be worse than none; the C API's edge turns this into an error code.
  if (!secret.ok()) throw std::runtime_error(secret.status().c_str());
  return secret.value();
}

Result<Digest> hmac_sha256(const Secret& key, std::span<const std::byte> message) {
  keep_openssl_until_the_end();
  Digest digest;
  unsigned bytes = 0;
  const unsigned char* done = ::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                                     reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                                     reinterpret_cast<unsigned char*>(digest.data()), &bytes);
  if (!done || bytes != digest.size()) return fail(tuttiSystemError, "OpenSSL cannot compute HMAC-SHA256");
  return digest;
}

bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<Secret> secret_from_text(std::string_view text) {
  keep_openssl_until_the_end();
  Secret secret;
  unsigned bytes = 0;
  if (::EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(secret.data()), &bytes, EVP_sha256(),
                   nullptr) != 1 ||
      bytes != secret.size())
    return fail(tuttiSystemError, "OpenSSL cannot compute SHA-256");
  return secret;
}

}  // namespace tutti
