// Simulated machines and their memory, and what the C API says of pointers of the wrong kind.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cuda/sim_device.h"
#include "cuda/sim_memory.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

TEST(SimTopology, NamesAreReadAndShown) {
  EXPECT_EQ(parse_sim_topology("").value(), (SimTopology{1, 8, SimLink::nvlink}));
  EXPECT_EQ(parse_sim_topology("2xnvlink2").value(), (SimTopology{2, 2, SimLink::nvlink}));
  EXPECT_EQ(parse_sim_topology("2xnvlink2").value().path_between(0, 1), PathClass::nvl);
  EXPECT_EQ(parse_sim_topology("2xnvlink2").value().path_between(1, 2), PathClass::net);
  EXPECT_EQ(parse_sim_topology("pcie4").value().path_between(3, 0), PathClass::phb);
  EXPECT_EQ(show(parse_sim_topology("3xpcie4").value()), "3xpcie4");
  for (const char* wrong : {"nvlink", "nvlink0", "nvlink65", "2x", "2nvlink2", "xnvlink2", "nvlink8 ", "8", "mesh4"})
    EXPECT_EQ(parse_sim_topology(wrong).status().code(), tuttiInvalidUsage) << wrong;
}

TEST(SimDevice, AnIndexBeyondTheMachineIsRefused) {
  EXPECT_FALSE(make_sim_device({.index = 8}).ok());
  EXPECT_FALSE(make_sim_device({.index = -1}).ok());
}

TEST(SimMemory, IsCopiedToAndFrom) {
  std::byte* memory = sim_memory::allocate(10000, 3).value();
  const std::string text = "over there";
  ASSERT_TRUE(sim_memory::copy(memory + 5000, text.data(), text.size()).ok());
  std::string back(text.size(), ' ');
  ASSERT_TRUE(sim_memory::copy(back.data(), memory + 5000, back.size()).ok());
  EXPECT_EQ(back, text);
  const auto imported = sim_memory::import_allocation(sim_memory::describe_allocation(memory).value());
  ASSERT_TRUE(imported.ok());
  EXPECT_EQ(std::memcmp(imported.value().kernel_view + 5000, text.data(), text.size()), 0);
  EXPECT_EQ(sim_memory::find(memory + 9999)->device, 3);
  EXPECT_TRUE(sim_memory::free(memory));
  EXPECT_FALSE(sim_memory::find(memory).has_value());
}

TEST(SimMemory, AStrayAccessOfTheHostFaults) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer makes a report of the signal";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(*static_cast<volatile char*>(static_cast<void*>(sim_memory::allocate(100, 0).value())) = 1,
              testing::KilledBySignal(SIGSEGV), "");
}

TEST(Pointers, OfTheWrongKindAreNamed) {
  float host[4] = {1, 2, 3, 4};
  void* device = nullptr;
  tuttiComm_t on_host = nullptr, on_device = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&on_host, 1, nullptr), tuttiSuccess);
  ASSERT_EQ(::setenv("TUTTI_DEVICE", "sim", 1), 0);
  ASSERT_EQ(tuttiCommInitAll(&on_device, 1, nullptr), tuttiSuccess) << tuttiGetLastError(nullptr);
  ASSERT_EQ(tuttiMemAlloc(&device, sizeof host), tuttiSuccess);
  ASSERT_EQ(::unsetenv("TUTTI_DEVICE"), 0);
  ASSERT_EQ(tuttiMemCopy(device, host, sizeof host), tuttiSuccess);

  EXPECT_EQ(tuttiAllReduce(host, host, 4, tuttiFloat32, tuttiSum, on_device, nullptr), tuttiInvalidArgument);
  EXPECT_NE(std::string(tuttiGetLastError(nullptr)).find("which is host memory; this communicator's rank works on memory of device 0"),
            std::string::npos)
      << tuttiGetLastError(nullptr);
  EXPECT_EQ(tuttiAllReduce(device, device, 4, tuttiFloat32, tuttiSum, on_host, nullptr), tuttiInvalidArgument);
  EXPECT_NE(std::string(tuttiGetLastError(nullptr)).find("works on host memory"), std::string::npos);

  EXPECT_EQ(tuttiAllReduce(device, device, 4, tuttiFloat32, tuttiSum, on_device, nullptr), tuttiSuccess);
  float back[4] = {};
  ASSERT_EQ(tuttiMemCopy(back, device, sizeof back), tuttiSuccess);
  EXPECT_EQ(back[3], 4.f);
  int index = -1;
  EXPECT_EQ(tuttiCommDevice(on_device, &index), tuttiSuccess);
  EXPECT_EQ(index, 0);
  EXPECT_EQ(tuttiCommDestroy(on_device), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(on_host), tuttiSuccess);
  EXPECT_EQ(tuttiMemFree(device), tuttiSuccess);
}

}  // namespace
}  // namespace tutti
