// Tutti for C++17 and later: RAII and exceptions over the C API, nothing else. Header only.
//
// Each class owns one handle, is movable and not copyable, and frees in its destructor. Calls that fail throw
// tutti::Error, which carries the code and the library's sentence. Anything not wrapped here is reached with get() and
// the C functions, whose results check() turns into exceptions.
//
//   tutti::Communicator world = tutti::Communicator::from_environment();
//   std::vector<float> gradient = ...;
//   world.all_reduce(gradient.data(), gradient.size(), tuttiSum);
#ifndef TUTTI_TUTTI_HPP_
#define TUTTI_TUTTI_HPP_

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/tutti.h"

namespace tutti {

class Error : public std::runtime_error {
 public:
  Error(tuttiResult_t code, const std::string& message) : std::runtime_error(message), code_(code) {}
  tuttiResult_t code() const noexcept { return code_; }

 private:
  tuttiResult_t code_;
};

// Throws when `result` is not success. comm is the communicator that the call was about, where there is one.
inline void check(tuttiResult_t result, tuttiComm_t comm = nullptr) {
  if (result != tuttiSuccess) throw Error(result, tuttiGetLastError(comm));
}

// The tuttiDataType_t of a C++ type. Half, bfloat16 and 8-bit floats have no C++17 type: pass their enumerator.
template <class T>
constexpr tuttiDataType_t data_type_of() {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8,
                "an integer of up to 64 bits, float or double");
  if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 4 ? tuttiFloat32 : tuttiFloat64;
  } else {
    static_assert(sizeof(T) != 2, "16-bit integers cannot be reduced; send them as tuttiUint8");
    if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? tuttiInt8 : tuttiUint8;
    if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? tuttiInt32 : tuttiUint32;
    return std::is_signed_v<T> ? tuttiInt64 : tuttiUint64;
  }
}

// A meeting point, as 128 bytes to hand to every rank. The process that made it must outlive the communicator.
class UniqueId {
 public:
  static UniqueId create() {
    UniqueId id;
    check(tuttiGetUniqueId(&id.id_));
    return id;
  }
  // From bytes that another process's create() gave.
  explicit UniqueId(const tuttiUniqueId& id) : id_(id) {}
  const tuttiUniqueId& get() const noexcept { return id_; }

 private:
  UniqueId() = default;
  tuttiUniqueId id_;
};

// An in-order queue of operations with a thread of its own. Destruction waits for what was issued.
class Stream {
 public:
  Stream() { check(tuttiStreamCreate(&stream_)); }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream() {
    if (stream_ != nullptr) tuttiStreamDestroy(stream_);
  }

  tuttiStream_t get() const noexcept { return stream_; }
  void synchronize() const { check(tuttiStreamSynchronize(stream_)); }
  // True when all that was issued is done.
  bool done() const {
    const tuttiResult_t result = tuttiStreamQuery(stream_);
    if (result == tuttiInProgress) return false;
    check(result);
    return true;
  }

 private:
  tuttiStream_t stream_ = nullptr;
};

// Calls made while a Group lives are collected; end() runs them together and throws what went wrong. A Group that is
// left by an exception runs what was collected so far and drops its errors.
class Group {
 public:
  Group() { check(tuttiGroupStart()); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    if (open_) tuttiGroupEnd();
  }
  void end() {
    open_ = false;
    check(tuttiGroupEnd());
  }

 private:
  bool open_ = true;
};

class Communicator {
 public:
  static Communicator from_environment(const tuttiConfig_t* config = nullptr) {
    Communicator comm;
    check(tuttiCommInitFromEnv(&comm.comm_, config));
    return comm;
  }
  static Communicator join(const UniqueId& id, int nranks, int rank, const tuttiConfig_t* config = nullptr) {
    Communicator comm;
    check(tuttiCommInitRankConfig(&comm.comm_, nranks, id.get(), rank, config));
    return comm;
  }
  // nranks ranks in this process; each is then driven by a thread of its own.
  static std::vector<Communicator> in_process(int nranks) {
    std::vector<tuttiComm_t> handles(static_cast<std::size_t>(nranks > 0 ? nranks : 0));
    check(tuttiCommInitAll(handles.data(), nranks, nullptr));
    std::vector<Communicator> comms(handles.size());
    for (std::size_t i = 0; i < handles.size(); ++i) comms[i].comm_ = handles[i];
    return comms;
  }
  // A communicator of the ranks that pass the same color. With TUTTI_SPLIT_NOCOLOR the result is empty.
  Communicator split(int color, int key, const tuttiConfig_t* config = nullptr) const {
    Communicator comm;
    check(tuttiCommSplit(comm_, color, key, &comm.comm_, config), comm_);
    return comm;
  }

  Communicator() = default;  // empty; only assignment and the destructor may be called
  Communicator(Communicator&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  ~Communicator() {
    if (comm_ != nullptr) tuttiCommDestroy(comm_);
  }

  tuttiComm_t get() const noexcept { return comm_; }
  explicit operator bool() const noexcept { return comm_ != nullptr; }

  int rank() const { return ask(tuttiCommUserRank); }
  int size() const { return ask(tuttiCommCount); }
  // Waits for all that was issued on this communicator.
  void finalize() { check(tuttiCommFinalize(comm_), comm_); }
  // Ends what is under way with an error, here and at the other ranks, and leaves this object empty.
  void abort() noexcept {
    if (comm_ != nullptr) tuttiCommAbort(std::exchange(comm_, nullptr));
  }
  // Throws the latched error, if there is one. Never blocks.
  void check_health() const {
    tuttiResult_t error = tuttiSuccess;
    check(tuttiCommGetAsyncError(comm_, &error), comm_);
    check(error, comm_);
  }

  // Counts are in elements. Without a stream the calls block; see tutti.h for buffers and in-place use.
  template <class T>
  void all_reduce(const T* send, T* recv, std::size_t count, tuttiRedOp_t op, tuttiStream_t stream = nullptr) const {
    check(tuttiAllReduce(send, recv, count, data_type_of<T>(), op, comm_, stream), comm_);
  }
  template <class T>
  void all_reduce(T* in_place, std::size_t count, tuttiRedOp_t op, tuttiStream_t stream = nullptr) const {
    all_reduce(static_cast<const T*>(in_place), in_place, count, op, stream);
  }
  template <class T>
  void broadcast(T* in_place, std::size_t count, int root, tuttiStream_t stream = nullptr) const {
    check(tuttiBroadcast(in_place, in_place, count, data_type_of<T>(), root, comm_, stream), comm_);
  }
  template <class T>
  void reduce(const T* send, T* recv, std::size_t count, tuttiRedOp_t op, int root,
              tuttiStream_t stream = nullptr) const {
    check(tuttiReduce(send, recv, count, data_type_of<T>(), op, root, comm_, stream), comm_);
  }
  template <class T>
  void reduce_scatter(const T* send, T* recv, std::size_t recvcount, tuttiRedOp_t op,
                      tuttiStream_t stream = nullptr) const {
    check(tuttiReduceScatter(send, recv, recvcount, data_type_of<T>(), op, comm_, stream), comm_);
  }
  template <class T>
  void all_gather(const T* send, T* recv, std::size_t sendcount, tuttiStream_t stream = nullptr) const {
    check(tuttiAllGather(send, recv, sendcount, data_type_of<T>(), comm_, stream), comm_);
  }
  template <class T>
  void all_to_all(const T* send, T* recv, std::size_t count, tuttiStream_t stream = nullptr) const {
    check(tuttiAllToAll(send, recv, count, data_type_of<T>(), comm_, stream), comm_);
  }
  template <class T>
  void send(const T* data, std::size_t count, int peer, tuttiStream_t stream = nullptr) const {
    check(tuttiSend(data, count, data_type_of<T>(), peer, comm_, stream), comm_);
  }
  template <class T>
  void recv(T* data, std::size_t count, int peer, tuttiStream_t stream = nullptr) const {
    check(tuttiRecv(data, count, data_type_of<T>(), peer, comm_, stream), comm_);
  }
  void barrier(tuttiStream_t stream = nullptr) const { check(tuttiBarrier(comm_, stream), comm_); }

 private:
  int ask(tuttiResult_t (*question)(tuttiComm_t, int*)) const {
    int answer = 0;
    check(question(comm_, &answer), comm_);
    return answer;
  }
  tuttiComm_t comm_ = nullptr;
};

}  // namespace tutti

#endif  // TUTTI_TUTTI_HPP_
