/* tutti.h is C99: compiled with -pedantic -Werror. The assertions pin what callers compiled against an older header
 * rely on. */
#include <tutti/tutti.h>

#define ASSERT_AT_COMPILE_TIME(name, condition) typedef char name[(condition) ? 1 : -1]

ASSERT_AT_COMPILE_TIME(unique_id_is_128_bytes, sizeof(tuttiUniqueId) == 128);
ASSERT_AT_COMPILE_TIME(size_leads_the_config, offsetof(tuttiConfig_t, size) == 0);
ASSERT_AT_COMPILE_TIME(size_leads_the_choice, offsetof(tuttiChoice_t, size) == 0);
ASSERT_AT_COMPILE_TIME(config_starts_as_in_0_1, offsetof(tuttiConfig_t, timeout_ms) == sizeof(size_t));
ASSERT_AT_COMPILE_TIME(types_have_nccls_values,
                       tuttiInt8 == 0 && tuttiUint8 == 1 && tuttiInt32 == 2 && tuttiUint32 == 3 && tuttiInt64 == 4 &&
                           tuttiUint64 == 5 && tuttiFloat16 == 6 && tuttiFloat32 == 7 && tuttiFloat64 == 8 &&
                           tuttiBfloat16 == 9 && tuttiFloat8e4m3 == 10 && tuttiFloat8e5m2 == 11);
ASSERT_AT_COMPILE_TIME(operations_have_nccls_values,
                       tuttiSum == 0 && tuttiProd == 1 && tuttiMax == 2 && tuttiMin == 3 && tuttiAvg == 4);
ASSERT_AT_COMPILE_TIME(results_have_nccls_values, tuttiSuccess == 0 && tuttiSystemError == 2 &&
                                                      tuttiInternalError == 3 && tuttiInvalidArgument == 4 &&
                                                      tuttiInvalidUsage == 5 && tuttiRemoteError == 6 &&
                                                      tuttiInProgress == 7);

static const tuttiConfig_t kConfig = TUTTI_CONFIG_INITIALIZER;

size_t tutti_abi_config_size(void);
size_t tutti_abi_config_size(void) { return kConfig.size; }
