#include "transports/transport.h"

namespace tutti {

size_t total_bytes(std::span<const ConstPiece> pieces) {
  size_t sum = 0;
  for (const ConstPiece& piece : pieces) sum += piece.bytes;
  return sum;
}

size_t total_bytes(std::span<const MutablePiece> pieces) {
  size_t sum = 0;
  for (const MutablePiece& piece : pieces) sum += piece.bytes;
  return sum;
}

}  // namespace tutti
