#include "transports/shm/address.h"

#include <cstring>
#include <type_traits>

namespace tutti::shm {
namespace {

// Counts changes of the address and of layout.h.
constexpr uint64_t kMagic = 0x7475'7474'6973'6d02;

// Both ends run on one machine wherever it matters, so the fields travel in its byte order; another order shows in the
// magic.
template <class Visitor>
void for_each_field(Address& a, Visitor&& visit) {
  visit(a.user);
  visit(a.dumpable);
  visit(a.barriers);
  visit(a.pid);
  visit(a.start_time);
  visit(a.memfd);
  visit(a.token);
  visit(a.geometry.slot_bytes);
  visit(a.geometry.depth);
  visit(a.geometry.nranks);
}

}  // namespace

std::vector<std::byte> encode(const Address& address) {
  std::vector<std::byte> bytes;
  const auto append = [&](const auto& field) {
    static_assert(std::is_trivially_copyable_v<std::remove_cvref_t<decltype(field)>>);
    const auto* first = reinterpret_cast<const std::byte*>(&field);
    bytes.insert(bytes.end(), first, first + sizeof field);
  };
  append(kMagic);
  Address copy = address;
  for_each_field(copy, append);
  const auto* host = reinterpret_cast<const std::byte*>(address.host.data());
  bytes.insert(bytes.end(), host, host + address.host.size());
  return bytes;
}

bool decode(std::span<const std::byte> bytes, Address& address) {
  bool complete = true;
  const auto take = [&](auto& field) {
    if (bytes.size() < sizeof field) {
      complete = false;
      return;
    }
    std::memcpy(&field, bytes.data(), sizeof field);
    bytes = bytes.subspan(sizeof field);
  };
  uint64_t magic = 0;
  take(magic);
  if (!complete || magic != kMagic) return false;
  for_each_field(address, take);
  if (!complete) return false;
  address.host.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return true;
}

}  // namespace tutti::shm
