#include "base/status.h"

#include <cstring>

namespace tutti {

Status system_error(std::string_view call, int error_number, std::string_view advice) {
  const char* name = strerrorname_np(error_number);
  const char* description = strerrordesc_np(error_number);
  return Status(tuttiSystemError,
                fmt::format("{}: {} ({}){}{}", call, description ? description : "unknown error",
                            name ? name : std::to_string(error_number).c_str(), advice.empty() ? "" : "; ", advice));
}

}  // namespace tutti
