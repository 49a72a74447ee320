// Tag: an operation's identity in 64 bits, so that a rank that receives another's message can say in words what the other
// one was doing.
//
//   bits 60..63 collective (send and recv are one)   56..59 type   53..55 operation   37..52 root   0..36 count
// Counts of 2^37 elements and more, and ranks above 65535, are compared mod their field.
#pragma once

#include <cstdint>
#include <string>

#include "comm/request.h"

namespace tutti {

uint64_t tag_of(const Request& request);
// "all_reduce of 1024 float, sum".
std::string describe_tag(uint64_t tag);

}  // namespace tutti
