// ByteWriter and ByteReader: values in little-endian bytes, for what ranks tell each other. A reader never trusts a
// length: it fails once and stays failed.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tutti {

class ByteWriter {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  void put(T value) {
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof value);
  }
  void put_bytes(std::span<const std::byte> bytes) {
    put(static_cast<uint32_t>(bytes.size()));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void put_string(std::string_view text) { put_bytes(std::as_bytes(std::span(text))); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  std::vector<std::byte> bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  T get() {
    T value{};
    if (!take(sizeof value)) return value;
    std::memcpy(&value, taken_.data(), sizeof value);
    return value;
  }
  std::vector<std::byte> get_bytes() {
    const uint32_t size = get<uint32_t>();
    if (!take(size)) return {};
    return {taken_.begin(), taken_.end()};
  }
  std::string get_string() {
    const std::vector<std::byte> bytes = get_bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // Everything was there, and nothing is left.
  bool complete() const { return ok_ && rest_.empty(); }
  bool ok() const { return ok_; }

 private:
  bool take(size_t size) {
    ok_ = ok_ && size <= rest_.size();
    if (!ok_) return false;
    taken_ = rest_.first(size);
    rest_ = rest_.subspan(size);
    return true;
  }
  std::span<const std::byte> rest_, taken_;
  bool ok_ = true;
};

}  // namespace tutti
