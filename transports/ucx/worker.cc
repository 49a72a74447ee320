#include "transports/ucx/worker.h"

#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "base/log.h"

namespace tutti::ucx {
namespace {

std::mutex said_mutex;
std::string last_said;  // by UCX, as an error; under said_mutex

// UCX would write to stdout, where tools print tables.
ucs_log_func_rc_t take_log(const char*, unsigned, const char*, ucs_log_level_t level, const ucs_log_component_config_t*,
                           const char* format, va_list arguments) {
  if (level > UCS_LOG_LEVEL_WARN) return UCS_LOG_FUNC_RC_CONTINUE;  // somebody has asked for it by UCX_LOG_LEVEL
  char text[512];
  std::vsnprintf(text, sizeof text, format, arguments);
  {
    std::lock_guard lock(said_mutex);
    last_said = text;
  }
  log(LogLevel::info, Subsystem::net, -1, "UCX: {}", text);
  return UCS_LOG_FUNC_RC_STOP;
}

// Once a process: the library's own handlers would take crashes away from the program and its debugger.
void settle_ucx() {
  static const bool settled = [] {
    for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(signal);
    ucs_log_push_handler(take_log);
    return true;
  }();
  (void)settled;
}

void forget_what_was_said() {
  std::lock_guard lock(said_mutex);
  last_said.clear();
}

}  // namespace

Status ucx_error(std::string_view call, ucs_status_t status) {
  std::lock_guard lock(said_mutex);
  return fail(tuttiSystemError, "{} failed: {}{}{}; see UCX_TLS and UCX_NET_DEVICES, `ucx_info -d` lists what there is", call,
              ucs_status_string(status), last_said.empty() ? "" : "; UCX said: ", last_said);
}

Result<std::unique_ptr<Worker>> Worker::create() {
  settle_ucx();
  forget_what_was_said();
  std::unique_ptr<Worker> made(new Worker);
  ucp_params_t wanted{};
  wanted.field_mask = UCP_PARAM_FIELD_FEATURES;
  wanted.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  if (const ucs_status_t status = ucp_init(&wanted, nullptr, &made->context_); status != UCS_OK)
    return ucx_error("ucp_init", status);
  ucp_worker_params_t threads{};
  threads.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  threads.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  if (const ucs_status_t status = ucp_worker_create(made->context_, &threads, &made->worker_); status != UCS_OK)
    return ucx_error("ucp_worker_create", status);
  if (const ucs_status_t status = ucp_worker_get_efd(made->worker_, &made->descriptor_); status != UCS_OK)
    return ucx_error("ucp_worker_get_efd", status);
  return made;
}

Worker::~Worker() {
  if (worker_) ucp_worker_destroy(worker_);
  if (context_) ucp_cleanup(context_);
}

std::vector<std::byte> Worker::address() const {
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  if (ucp_worker_get_address(worker_, &address, &bytes) != UCS_OK) return {};
  const auto* first = reinterpret_cast<const std::byte*>(address);
  std::vector<std::byte> copy(first, first + bytes);
  ucp_worker_release_address(worker_, address);
  return copy;
}

}  // namespace tutti::ucx
