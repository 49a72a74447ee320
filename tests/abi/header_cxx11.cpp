// tutti.h is also C++11.
#include <tutti/tutti.h>

static_assert(sizeof(tuttiUniqueId) == TUTTI_UNIQUE_ID_BYTES, "the size is part of the ABI");

namespace {
const tuttiConfig_t kConfig = TUTTI_CONFIG_INITIALIZER;
}
size_t tutti_abi_config_size_cxx() { return kConfig.size; }
