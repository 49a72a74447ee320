// Plug-ins: libraries of ours that bring a driver's or a framework's library with them, and are loaded only where what
// they serve is wanted.
#pragma once

#include <string_view>

#include "base/status.h"

namespace tutti {

// The symbol of libtutti_NAME.so, which is looked for beside this library (or program), in ../lib from there, and
// where the dynamic loader looks. Once loaded it stays until the process ends. Error: tuttiSystemError, with the reason
// in the loader's words.
Result<void*> plugin_symbol(std::string_view name, const char* symbol);

}  // namespace tutti
