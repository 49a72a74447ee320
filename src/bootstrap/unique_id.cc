// The 128 bytes of a tuttiUniqueId: magic 4, major version 2, port 2, port count 2, host length 2, host up to 80,
// key 32, checksum 4; little-endian, unused bytes zero.
#include <algorithm>

#include "bootstrap/wire.h"

namespace tutti {
namespace {

constexpr uint32_t kIdMagic = 0xd1c0ffee;
constexpr size_t kMaxHostBytes = 80;  // the longest numeric address, IPv6 with a scope, has 61
constexpr size_t kChecksumBytes = 4;
static_assert(12 + kMaxHostBytes + kSecretBytes + kChecksumBytes == TUTTI_UNIQUE_ID_BYTES);

// FNV-1a: catches an id that was cut, for example by being copied as a C string.
uint32_t checksum(wire::View bytes) {
  uint32_t hash = 0x811c9dc5;
  for (std::byte b : bytes) hash = (hash ^ static_cast<uint32_t>(b)) * 0x01000193;
  return hash;
}

}  // namespace

tuttiUniqueId encode(const MeetingPoint& point) {
  // A host that does not fit is left out, which decode refuses: better no address than a wrong one.
  const std::string_view host = point.host.size() <= kMaxHostBytes ? std::string_view(point.host) : std::string_view();
  wire::Writer writer;
  writer.integer(kIdMagic);
  writer.integer(static_cast<uint16_t>(TUTTI_MAJOR));
  writer.integer(point.port);
  writer.integer(point.port_count);
  writer.integer(static_cast<uint16_t>(host.size()));
  writer.raw(std::as_bytes(std::span(host)));
  writer.raw(wire::Bytes(kMaxHostBytes - host.size()));
  writer.raw(point.key);
  writer.integer(checksum(writer.bytes()));
  tuttiUniqueId id;
  std::memcpy(id.internal, writer.bytes().data(), sizeof id.internal);
  return id;
}

Result<MeetingPoint> decode_unique_id(const tuttiUniqueId& id) {
  constexpr const char* kAdvice = "pass all 128 bytes of what tuttiGetUniqueId wrote, unchanged, to every rank";
  const wire::View bytes = std::as_bytes(std::span(id.internal));
  wire::Reader reader(bytes);
  if (reader.integer<uint32_t>() != kIdMagic) return invalid_argument("this is not a Tutti unique id; {}", kAdvice);
  const auto major = reader.integer<uint16_t>();
  if (major != TUTTI_MAJOR)
    return invalid_argument("the unique id was made by Tutti {}, this is Tutti {}.{}.{}; use one version on all ranks",
                            major, TUTTI_MAJOR, TUTTI_MINOR, TUTTI_PATCH);
  MeetingPoint point;
  point.port = reader.integer<uint16_t>();
  point.port_count = reader.integer<uint16_t>();
  const auto host_bytes = reader.integer<uint16_t>();
  const wire::View host = reader.raw(kMaxHostBytes);
  const wire::View key = reader.raw(kSecretBytes);
  if (reader.integer<uint32_t>() != checksum(bytes.first(bytes.size() - kChecksumBytes)) || point.port == 0 ||
      point.port_count == 0 || host_bytes == 0 || host_bytes > kMaxHostBytes)
    return invalid_argument("the unique id is damaged; {}", kAdvice);
  point.host.assign(reinterpret_cast<const char*>(host.data()), host_bytes);
  std::copy(key.begin(), key.end(), point.key.begin());
  return point;
}

}  // namespace tutti
