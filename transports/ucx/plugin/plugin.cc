// libtutti_ucx.so.
#include "base/log.h"
#include "transports/plugin.h"
#include "transports/ucx/ucx.h"

extern "C" __attribute__((visibility("default"))) const tutti::TransportPlugin tutti_transport_plugin = {
    .make = [](const tutti::TransportContext& context) {
      tutti::configure_log(context.config);
      return tutti::make_ucx_transport(context);
    }};
