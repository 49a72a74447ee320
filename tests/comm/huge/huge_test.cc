// More elements than 31 bits count.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "../ranks.h"

namespace tutti::test {
namespace {

uint64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  uint64_t kib = 0;
  while (file >> word)
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  return 0;
}

TEST(Huge, BroadcastOfMoreThan2To31Elements) {
  constexpr uint64_t kNeededBytes = uint64_t{12} << 30;
  if (available_memory_bytes() < kNeededBytes) GTEST_SKIP() << "needs 12 GiB of free memory";
  constexpr size_t kCount = (size_t{1} << 31) + 5;
  const Environment environment;
  const Ranks ranks(2);
  ranks.run([](const Member& me) {
    void* memory = nullptr;
    ASSERT_DONE(tuttiMemAlloc(&memory, kCount));
    auto* bytes = static_cast<int8_t*>(memory);
    // A mark at the start of every page and at both ends tells a wrapped offset; filling all would only take time.
    constexpr size_t kStep = 4096;
    const auto mark = [](size_t i) { return static_cast<int8_t>(i / kStep % 113 + 1); };
    if (me.rank == 1) {
      for (size_t i = 0; i < kCount; i += kStep) bytes[i] = mark(i);
      bytes[kCount - 1] = 127;
    }
    EXPECT_DONE(tuttiBroadcast(bytes, bytes, kCount, tuttiInt8, 1, me.comm, nullptr));
    size_t wrong = 0;
    for (size_t i = 0; i < kCount; i += kStep) wrong += bytes[i] != mark(i);
    EXPECT_EQ(wrong, 0U);
    EXPECT_EQ(bytes[kCount - 1], 127);
    EXPECT_DONE(tuttiMemFree(memory));
  });
}

}  // namespace
}  // namespace tutti::test
