// The rest of the C API: version and errors, groups, operations with a factor, memory, streams, what would be chosen.

#include <cstring>

#include "api/arguments.h"
#include "api/handle.h"
#include "base/shareable.h"
#include "comm/group.h"
#include "comm/memory.h"

using namespace tutti;

tuttiResult_t tuttiGetVersion(int* version) {
  return api_call([&]() -> Status {
    if (!version) return invalid_argument("version is NULL");
    *version = TUTTI_VERSION_CODE;
    return {};
  });
}

const char* tuttiGetErrorString(tuttiResult_t result) {
  switch (result) {
    case tuttiSuccess: return "success";
    case tuttiUnhandledDeviceError: return "unhandled device error";
    case tuttiSystemError: return "system error";
    case tuttiInternalError: return "internal error";
    case tuttiInvalidArgument: return "invalid argument";
    case tuttiInvalidUsage: return "invalid usage";
    case tuttiRemoteError: return "remote error";
    case tuttiInProgress: return "in progress";
    case tuttiTimeout: return "timeout";
    case tuttiNumResults: break;
  }
  return "unknown result code";
}

const char* tuttiGetLastError(tuttiComm_t comm) {
  if (comm && check_comm(comm).ok()) {
    const Status status = comm->impl->error();
    if (!status.ok()) set_last_error(status);
  }
  return last_error_text();
}

tuttiResult_t tuttiGroupStart(void) {
  return api_call([]() -> Status {
    group_start();
    return {};
  });
}

tuttiResult_t tuttiGroupEnd(void) {
  return api_call([] { return group_end(); });
}

tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t* op, const void* scalar, tuttiDataType_t type, tuttiComm_t comm) {
  return api_call([&]() -> Status {
    TUTTI_TRY(check_comm(comm));
    if (!op) return invalid_argument("op is NULL");
    if (!scalar) return invalid_argument("scalar is NULL");
    Communicator::Factor factor{};
    TUTTI_TRY_ASSIGN(factor.type, check_type(type));
    std::memcpy(&factor.scalar_bits, scalar, size_of(factor.type));
    *op = comm->impl->add_factor(factor);
    return {};
  });
}

tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm) {
  return api_call([&]() -> Status {
    TUTTI_TRY(check_comm(comm));
    return comm->impl->remove_factor(op);
  });
}

tuttiResult_t tuttiMemAlloc(void** pointer, size_t bytes) {
  return api_call([&]() -> Status {
    if (!pointer) return invalid_argument("pointer is NULL");
    *pointer = nullptr;
    if (bytes == 0) return {};
    TUTTI_TRY_ASSIGN(*pointer, allocate_on_device(bytes));
    if (*pointer) return {};
    TUTTI_TRY_ASSIGN(*pointer, allocate_shareable(bytes));
    return {};
  });
}

tuttiResult_t tuttiMemFree(void* pointer) {
  return api_call([&]() -> Status {
    if (!pointer || free_on_device(pointer)) return {};
    return free_shareable(pointer);
  });
}

tuttiResult_t tuttiMemCopy(void* to, const void* from, size_t bytes) {
  return api_call([&]() -> Status {
    if (bytes != 0 && (!to || !from)) return invalid_argument("{} is NULL but {} bytes are to be copied", to ? "from" : "to", bytes);
    return copy_anywhere(to, from, bytes);
  });
}

tuttiResult_t tuttiCommRegister(tuttiComm_t comm, void* buffer, size_t bytes, void** handle) {
  return api_call([&]() -> Status {
    TUTTI_TRY(check_comm(comm));
    if (!handle) return invalid_argument("handle is NULL");
    if (!buffer || bytes == 0) return invalid_argument("the buffer is NULL or empty");
    if (bytes > UINTPTR_MAX - reinterpret_cast<uintptr_t>(buffer))
      return invalid_argument("a buffer at {} cannot have {} bytes: that is past the end of memory", buffer, bytes);
    return comm->impl->register_buffer(buffer, bytes, handle);
  });
}

tuttiResult_t tuttiCommDeregister(tuttiComm_t comm, void* handle) {
  return api_call([&]() -> Status {
    TUTTI_TRY(check_comm(comm));
    return comm->impl->deregister_buffer(handle);
  });
}

tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream) {
  return api_call([&]() -> Status {
    if (!stream) return invalid_argument("stream is NULL; it receives the stream");
    *stream = nullptr;
    TUTTI_TRY_ASSIGN(auto made, Stream::create());
    *stream = new tuttiStream{tuttiStream::kMark, std::move(made)};
    return {};
  });
}

tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream) {
  return api_call([&]() -> Status {
    TUTTI_TRY(check_stream(stream));
    if (!stream) return invalid_argument("stream is NULL; the calling thread's own order cannot be destroyed");
    if (open_group_needs(*stream->impl))
      return invalid_usage("the stream is needed by calls in this thread's open group; end the group with tuttiGroupEnd "
                           "first");
    retire(stream);
    return {};
  });
}

tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream) {
  return api_call([&]() -> Status {
    TUTTI_TRY(check_stream(stream));
    return stream ? stream->impl->synchronize() : Status();
  });
}

tuttiResult_t tuttiStreamQuery(tuttiStream_t stream) {
  if (stream && check_stream(stream).ok() && !stream->impl->idle()) return tuttiInProgress;
  return api_call([&] { return check_stream(stream); });
}

tuttiResult_t tuttiCommQueryChoice(tuttiComm_t comm, const char* collective, size_t count, tuttiDataType_t type,
                                   tuttiChoice_t* choice) {
  return api_call([&]() -> Status {
    TUTTI_TRY(check_comm(comm));
    if (!collective || !choice) return invalid_argument("collective or choice is NULL");
    if (choice->size < sizeof(tuttiChoice_t))
      return invalid_argument("choice->size is {}; set it to sizeof(tuttiChoice_t)", choice->size);
    Request request;
    TUTTI_TRY_ASSIGN(request.type, check_type(type));
    // Tools say "sendrecv" of a pair of messages.
    const auto parsed = std::string_view(collective) == "sendrecv" ? Collective::send : parse_collective(collective);
    if (!parsed) return invalid_argument("'{}' is no collective; there are {}", collective, collective_names());
    request.collective = *parsed;
    request.in_block_count = request.out_block_count = count;
    const Communicator& c = *comm->impl;
    TUTTI_TRY_ASSIGN(const Choice chosen, c.choose(*parsed, Rank{0}, request.wide_bytes(c.nranks())));
    choice->algorithm = chosen.algorithm->name.data();
    choice->protocol = c.protocol(request.wide_bytes(c.nranks())) == dev::Protocol::ll ? "ll" : "simple";
    const std::string list = c.wiring().transport_list().substr(0, sizeof choice->transport - 1);
    std::memcpy(choice->transport, list.c_str(), list.size() + 1);
    choice->tile_bytes = chosen.tile_bytes;
    choice->lanes = static_cast<int>(chosen.lanes);
    choice->algorithm_forced = chosen.forced;
    choice->transport_forced = c.config().is_set("TUTTI_TRANSPORT");
    return {};
  });
}
