// Wrong arguments: each is named with what is allowed, nothing is sent, and the communicator stays as good as new.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "ranks.h"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

#define EXPECT_REFUSED(call, part) \
  EXPECT_THAT(problem(call), AllOf(StartsWith("invalid argument: "), HasSubstr(part))) << #call

// Rank 0 of two makes the wrong calls alone: one that were sent would be met by the other rank's next one.
class Arguments : public testing::Test {
 protected:
  ~Arguments() override { expect_usable(ranks_); }

  Environment environment_;
  const Ranks ranks_{2};
  const tuttiComm_t comm_ = ranks_[0];
  alignas(64) int32_t send_[64] = {}, recv_[64] = {};
};

TEST_F(Arguments, NullBuffers) {
  EXPECT_REFUSED(tuttiAllReduce(nullptr, recv_, 4, tuttiInt32, tuttiSum, comm_, nullptr), "send is NULL");
  EXPECT_REFUSED(tuttiAllReduce(send_, nullptr, 4, tuttiInt32, tuttiSum, comm_, nullptr), "recv is NULL");
  EXPECT_REFUSED(tuttiBroadcast(nullptr, recv_, 4, tuttiInt32, 0, comm_, nullptr), "send is NULL");
  EXPECT_REFUSED(tuttiBroadcast(send_, nullptr, 4, tuttiInt32, 1, comm_, nullptr), "recv is NULL");
  EXPECT_REFUSED(tuttiReduce(send_, nullptr, 4, tuttiInt32, tuttiSum, 0, comm_, nullptr), "recv is NULL");
  EXPECT_REFUSED(tuttiReduceScatter(nullptr, recv_, 4, tuttiInt32, tuttiSum, comm_, nullptr), "send is NULL");
  EXPECT_REFUSED(tuttiAllGather(send_, nullptr, 4, tuttiInt32, comm_, nullptr), "recv is NULL");
  EXPECT_REFUSED(tuttiAllToAll(nullptr, recv_, 4, tuttiInt32, comm_, nullptr), "send is NULL");
  EXPECT_REFUSED(tuttiGather(send_, nullptr, 4, tuttiInt32, 0, comm_, nullptr), "recv is NULL");
  EXPECT_REFUSED(tuttiScatter(nullptr, recv_, 4, tuttiInt32, 0, comm_, nullptr), "send is NULL");
  EXPECT_REFUSED(tuttiSend(nullptr, 4, tuttiInt32, 1, comm_, nullptr), "send is NULL");
  EXPECT_REFUSED(tuttiRecv(nullptr, 4, tuttiInt32, 1, comm_, nullptr), "recv is NULL");
}

TEST_F(Arguments, NullBuffersOfNoElementsAreFine) {
  ranks_.run([](const Member& me) {
    EXPECT_DONE(tuttiAllReduce(nullptr, nullptr, 0, tuttiInt32, tuttiSum, me.comm, nullptr));
    EXPECT_DONE(tuttiAllGather(nullptr, nullptr, 0, tuttiInt32, me.comm, nullptr));
    EXPECT_DONE(tuttiAllToAll(nullptr, nullptr, 0, tuttiInt32, me.comm, nullptr));
    if (me.rank == 0) EXPECT_DONE(tuttiSend(nullptr, 0, tuttiInt32, 1, me.comm, nullptr));
    if (me.rank == 1) EXPECT_DONE(tuttiRecv(nullptr, 0, tuttiInt32, 0, me.comm, nullptr));
  });
}

TEST_F(Arguments, NullTables) {
  const size_t counts[2] = {1, 1};
  EXPECT_REFUSED(tuttiAllGatherV(send_, recv_, nullptr, nullptr, tuttiInt32, comm_, nullptr), "counts is NULL");
  EXPECT_REFUSED(tuttiReduceScatterV(send_, recv_, nullptr, nullptr, tuttiInt32, tuttiSum, comm_, nullptr),
                 "counts is NULL");
  EXPECT_REFUSED(tuttiAllToAllV(send_, nullptr, nullptr, recv_, counts, nullptr, tuttiInt32, comm_, nullptr),
                 "sendcounts is NULL");
  EXPECT_REFUSED(tuttiAllToAllV(send_, counts, nullptr, recv_, nullptr, nullptr, tuttiInt32, comm_, nullptr),
                 "recvcounts is NULL");
}

TEST_F(Arguments, TablesThatContradictThemselves) {
  const size_t counts[2] = {3, 3}, overlapping[2] = {0, 2}, own_differs[2] = {2, 3};
  EXPECT_REFUSED(tuttiAllGatherV(send_, recv_, counts, overlapping, tuttiInt32, comm_, nullptr), "overlap");
  EXPECT_REFUSED(tuttiAllToAllV(send_, counts, nullptr, recv_, counts, overlapping, tuttiInt32, comm_, nullptr),
                 "overlap");
  EXPECT_REFUSED(tuttiAllToAllV(send_, counts, nullptr, recv_, own_differs, nullptr, tuttiInt32, comm_, nullptr),
                 "sendcounts[0] is 3 but recvcounts[0] is 2");
  const size_t huge[2] = {SIZE_MAX / 2, SIZE_MAX / 2 + 8};
  EXPECT_REFUSED(tuttiAllGatherV(send_, recv_, huge, nullptr, tuttiInt32, comm_, nullptr), "counts");
  EXPECT_REFUSED(tuttiAllGatherV(send_, recv_, counts, huge, tuttiInt32, comm_, nullptr), "displacement");
}

TEST_F(Arguments, NullAndDestroyedCommunicators) {
  EXPECT_REFUSED(tuttiAllReduce(send_, recv_, 4, tuttiInt32, tuttiSum, nullptr, nullptr), "communicator is NULL");
  EXPECT_REFUSED(tuttiBarrier(nullptr, nullptr), "communicator is NULL");
  EXPECT_REFUSED(tuttiSend(send_, 1, tuttiInt32, 0, nullptr, nullptr), "communicator is NULL");
  EXPECT_REFUSED(tuttiCommDestroy(nullptr), "communicator is NULL");
  EXPECT_REFUSED(tuttiCommAbort(nullptr), "communicator is NULL");
  EXPECT_REFUSED(tuttiCommFinalize(nullptr), "communicator is NULL");
  tuttiComm_t gone = nullptr;
  ASSERT_DONE(tuttiCommInitAll(&gone, 1, nullptr));
  EXPECT_DONE(tuttiCommDestroy(gone));
  EXPECT_REFUSED(tuttiBarrier(gone, nullptr), "was destroyed");
  EXPECT_REFUSED(tuttiCommDestroy(gone), "was destroyed");
  ASSERT_DONE(tuttiCommInitAll(&gone, 1, nullptr));
  EXPECT_DONE(tuttiCommAbort(gone));
  EXPECT_REFUSED(tuttiCommAbort(gone), "was destroyed");
  uint64_t none[8] = {1, 2, 3};
  EXPECT_REFUSED(tuttiBarrier(reinterpret_cast<tuttiComm_t>(none), nullptr), "no handle of Tutti");
  for (const uintptr_t no_pointer : {uintptr_t{8}, uintptr_t{0x7001}, UINTPTR_MAX}) {
    EXPECT_REFUSED(tuttiBarrier(reinterpret_cast<tuttiComm_t>(no_pointer), nullptr), "no handle of Tutti");
    EXPECT_REFUSED(tuttiStreamSynchronize(reinterpret_cast<tuttiStream_t>(no_pointer)), "no handle of Tutti");
  }
}

// It may neither use its parent's communicator, whose memory and sockets it shares, nor end it.
TEST_F(Arguments, HandlesOfTheParentOfAFork) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's allocator is not for a forked child of a process with threads";
#endif
  tuttiStream_t stream = nullptr;
  ASSERT_DONE(tuttiStreamCreate(&stream));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool refused = tuttiBarrier(comm_, nullptr) == tuttiInvalidUsage &&
                         tuttiCommAbort(comm_) == tuttiInvalidUsage && tuttiCommDestroy(comm_) == tuttiInvalidUsage &&
                         tuttiStreamSynchronize(stream) == tuttiInvalidUsage &&
                         std::string(tuttiGetLastError(nullptr)).find("before this process was forked") != std::string::npos;
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_DONE(tuttiStreamDestroy(stream));
}

TEST_F(Arguments, DestroyedAndNullStreams) {
  tuttiStream_t gone = nullptr;
  ASSERT_DONE(tuttiStreamCreate(&gone));
  EXPECT_DONE(tuttiStreamDestroy(gone));
  EXPECT_REFUSED(tuttiBarrier(comm_, gone), "stream");
  EXPECT_REFUSED(tuttiStreamDestroy(gone), "stream");
  EXPECT_REFUSED(tuttiStreamSynchronize(gone), "stream");
  EXPECT_REFUSED(tuttiStreamQuery(gone), "stream");
  EXPECT_REFUSED(tuttiStreamCreate(nullptr), "stream is NULL");
  EXPECT_REFUSED(tuttiStreamDestroy(nullptr), "stream is NULL");
  EXPECT_DONE(tuttiStreamSynchronize(nullptr));
}

TEST_F(Arguments, Misaligned) {
  auto* odd = reinterpret_cast<int32_t*>(reinterpret_cast<char*>(send_) + 2);
  EXPECT_REFUSED(tuttiAllReduce(odd, recv_, 4, tuttiInt32, tuttiSum, comm_, nullptr),
                 "not aligned to the 4 bytes of int32");
  EXPECT_REFUSED(tuttiAllReduce(recv_, odd, 4, tuttiInt32, tuttiSum, comm_, nullptr), "recv is");
  EXPECT_REFUSED(tuttiSend(odd, 4, tuttiInt64, 1, comm_, nullptr), "not aligned to the 8 bytes");
  ranks_.run([](const Member& me) {
    alignas(8) int8_t bytes[16] = {};
    EXPECT_DONE(tuttiAllReduce(bytes + 3, bytes + 3, 5, tuttiInt8, tuttiSum, me.comm, nullptr));
  });
}

TEST_F(Arguments, Overlapping) {
  EXPECT_REFUSED(tuttiAllReduce(send_, send_ + 1, 4, tuttiInt32, tuttiSum, comm_, nullptr), "overlap");
  EXPECT_REFUSED(tuttiAllReduce(send_ + 3, send_, 4, tuttiInt32, tuttiSum, comm_, nullptr), "overlap");
  EXPECT_REFUSED(tuttiBroadcast(send_, send_ + 2, 4, tuttiInt32, 0, comm_, nullptr), "overlap");
  EXPECT_REFUSED(tuttiAllGather(send_ + 4, send_, 4, tuttiInt32, comm_, nullptr), "in place");
  EXPECT_REFUSED(tuttiReduceScatter(send_, send_ + 4, 4, tuttiInt32, tuttiSum, comm_, nullptr), "in place");
  EXPECT_REFUSED(tuttiAllToAll(send_, send_, 4, tuttiInt32, comm_, nullptr), "they must not");
  EXPECT_REFUSED(tuttiGather(send_ + 4, send_, 4, tuttiInt32, 0, comm_, nullptr), "overlap");
  EXPECT_REFUSED(tuttiScatter(send_, send_ + 4, 4, tuttiInt32, 0, comm_, nullptr), "overlap");
  ranks_.run([](const Member& me) {
    int32_t values[8] = {};  // next to each other is no overlap
    EXPECT_DONE(tuttiAllReduce(values, values + 4, 4, tuttiInt32, tuttiSum, me.comm, nullptr));
  });
}

TEST_F(Arguments, EnumeratorsOutOfRange) {
  for (const int type : {-1, 12, 1000}) {
    const auto bad = static_cast<tuttiDataType_t>(type);
    EXPECT_REFUSED(tuttiAllReduce(send_, recv_, 4, bad, tuttiSum, comm_, nullptr), "tuttiDataType_t");
    EXPECT_REFUSED(tuttiSend(send_, 4, bad, 1, comm_, nullptr), "type " + std::to_string(type));
  }
  for (const int op : {-1, 5, 1000}) {
    const auto bad = static_cast<tuttiRedOp_t>(op);
    EXPECT_REFUSED(tuttiAllReduce(send_, recv_, 4, tuttiInt32, bad, comm_, nullptr), "operation " + std::to_string(op));
    EXPECT_REFUSED(tuttiReduce(send_, recv_, 4, tuttiInt32, bad, 0, comm_, nullptr), "sum, prod, max, min, avg");
  }
  EXPECT_REFUSED(tuttiAllReduce(send_, recv_, 4, tuttiInt32, tuttiMaxRedOp, comm_, nullptr), "operation");
}

TEST_F(Arguments, RanksOutOfRange) {
  for (const int rank : {-1, 2, 1 << 30}) {
    const std::string number = " is " + std::to_string(rank) + "; the communicator has ranks 0 to 1";
    EXPECT_REFUSED(tuttiBroadcast(send_, recv_, 4, tuttiInt32, rank, comm_, nullptr), "root" + number);
    EXPECT_REFUSED(tuttiReduce(send_, recv_, 4, tuttiInt32, tuttiSum, rank, comm_, nullptr), "root" + number);
    EXPECT_REFUSED(tuttiGather(send_, recv_, 4, tuttiInt32, rank, comm_, nullptr), "root" + number);
    EXPECT_REFUSED(tuttiScatter(send_, recv_, 4, tuttiInt32, rank, comm_, nullptr), "root" + number);
    EXPECT_REFUSED(tuttiSend(send_, 4, tuttiInt32, rank, comm_, nullptr), "peer" + number);
    EXPECT_REFUSED(tuttiRecv(recv_, 4, tuttiInt32, rank, comm_, nullptr), "peer" + number);
  }
}

TEST_F(Arguments, CountsThatNoMemoryHolds) {
  for (const size_t count : {size_t{1} << 48, SIZE_MAX / 4, SIZE_MAX}) {
    EXPECT_REFUSED(tuttiAllReduce(send_, recv_, count, tuttiInt32, tuttiSum, comm_, nullptr), "count is");
    EXPECT_REFUSED(tuttiAllGather(send_, recv_, count, tuttiInt8, comm_, nullptr), "sendcount is");
    EXPECT_REFUSED(tuttiReduceScatter(send_, recv_, count, tuttiInt8, tuttiSum, comm_, nullptr), "recvcount is");
    EXPECT_REFUSED(tuttiSend(send_, count, tuttiInt8, 1, comm_, nullptr), "count is");
  }
}

TEST_F(Arguments, OutPointers) {
  EXPECT_REFUSED(tuttiGetVersion(nullptr), "NULL");
  EXPECT_REFUSED(tuttiCommCount(comm_, nullptr), "NULL");
  EXPECT_REFUSED(tuttiCommUserRank(comm_, nullptr), "NULL");
  EXPECT_REFUSED(tuttiCommDevice(comm_, nullptr), "NULL");
  EXPECT_REFUSED(tuttiCommGetAsyncError(comm_, nullptr), "NULL");
  EXPECT_REFUSED(tuttiMemAlloc(nullptr, 8), "NULL");
  const int32_t scalar = 1;
  tuttiRedOp_t op;
  EXPECT_REFUSED(tuttiRedOpCreatePreMulSum(nullptr, &scalar, tuttiInt32, comm_), "op is NULL");
  EXPECT_REFUSED(tuttiRedOpCreatePreMulSum(&op, nullptr, tuttiInt32, comm_), "scalar is NULL");
  tuttiChoice_t choice{};
  choice.size = sizeof choice;
  EXPECT_REFUSED(tuttiCommQueryChoice(comm_, nullptr, 1, tuttiInt32, &choice), "NULL");
  EXPECT_REFUSED(tuttiCommQueryChoice(comm_, "all_reduce", 1, tuttiInt32, nullptr), "NULL");
  EXPECT_REFUSED(tuttiCommQueryChoice(comm_, "sing", 1, tuttiInt32, &choice), "'sing' is no collective; there are all_reduce, broadcast");
  choice.size = 0;
  EXPECT_REFUSED(tuttiCommQueryChoice(comm_, "all_reduce", 1, tuttiInt32, &choice), "size is 0");
}

TEST_F(Arguments, Memory) {
  void* memory = nullptr;
  ASSERT_DONE(tuttiMemAlloc(&memory, 10'000));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0U);
  std::memset(memory, 1, 10'000);
  void* handle = nullptr;
  EXPECT_REFUSED(tuttiCommRegister(comm_, memory, SIZE_MAX, &handle), "past the end of memory");
  EXPECT_DONE(tuttiCommRegister(comm_, memory, 10'000, &handle));
  EXPECT_REFUSED(tuttiCommDeregister(ranks_[1], handle), "tuttiCommRegister");
  EXPECT_DONE(tuttiCommDeregister(comm_, handle));
  EXPECT_REFUSED(tuttiCommDeregister(comm_, handle), "tuttiCommRegister");
  EXPECT_REFUSED(tuttiCommRegister(comm_, nullptr, 8, &handle), "NULL");
  EXPECT_REFUSED(tuttiCommRegister(comm_, memory, 8, nullptr), "NULL");
  EXPECT_DONE(tuttiMemFree(memory));
  EXPECT_REFUSED(tuttiMemFree(memory), "tuttiMemAlloc");
  EXPECT_DONE(tuttiMemFree(nullptr));
  EXPECT_DONE(tuttiMemAlloc(&memory, 0));
  EXPECT_DONE(tuttiMemFree(memory));
  EXPECT_THAT(problem(tuttiMemAlloc(&memory, SIZE_MAX / 2)), StartsWith("system error"));
}

TEST(ErrorTexts, EveryResultHasAName) {
  for (int code = 0; code < tuttiNumResults; ++code)
    EXPECT_STRNE(tuttiGetErrorString(static_cast<tuttiResult_t>(code)), "unknown result code") << code;
  EXPECT_STREQ(tuttiGetErrorString(static_cast<tuttiResult_t>(77)), "unknown result code");
  EXPECT_STREQ(tuttiGetErrorString(static_cast<tuttiResult_t>(-1)), "unknown result code");
  int version = 0;
  EXPECT_DONE(tuttiGetVersion(&version));
  EXPECT_EQ(version, TUTTI_VERSION_CODE);
}

// The sentence is the calling thread's own.
TEST(ErrorTexts, BelongToTheThread) {
  EXPECT_NE(tuttiGetVersion(nullptr), tuttiSuccess);
  const std::string mine = tuttiGetLastError(nullptr);
  in_threads(1, [&](int) {
    EXPECT_STREQ(tuttiGetLastError(nullptr), "no error");
    EXPECT_NE(tuttiGroupEnd(), tuttiSuccess);
    EXPECT_NE(tuttiGetLastError(nullptr), mine);
  });
  EXPECT_EQ(tuttiGetLastError(nullptr), mine);
}

}  // namespace
}  // namespace tutti::test
