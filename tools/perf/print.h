// Print: the table and the complaints, with errors looked at. fmt::print throws, and what is left in stdio's buffer at
// the end of the process fails unseen.
#pragma once

#include <string_view>

#include "base/status.h"

namespace tutti::perf {

// Writes to standard output, all the way to the kernel. tuttiSystemError: not all of it could be written.
Status print_out(std::string_view text);

// Writes to standard error; where that fails there is nowhere left to say so.
void print_error(std::string_view text);

}  // namespace tutti::perf
