// Which memory p2p takes for a peer's.
#include "transports/p2p/p2p.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/sim_device.h"

namespace tutti {
namespace {

using testing::HasSubstr;

// A device that maps something else than what it was asked for.
class Misled final : public Device {
 public:
  explicit Misled(std::unique_ptr<Device> device) : device_(std::move(device)) {}
  ~Misled() override { device_->free(elsewhere_); }
  std::string_view kind() const override { return device_->kind(); }
  int index() const override { return device_->index(); }
  int node() const override { return device_->node(); }
  PathClass path_to(int index) const override { return device_->path_to(index); }
  uint32_t most_blocks() const override { return device_->most_blocks(); }
  Result<std::byte*> allocate(size_t bytes) override {
    bytes_ = bytes;
    return device_->allocate(bytes);
  }
  Result<std::byte*> allocate_pinned(size_t bytes) override { return device_->allocate_pinned(bytes); }
  void free(std::byte* memory) override { device_->free(memory); }
  std::byte* kernel_address(const void* pointer) const override { return device_->kernel_address(pointer); }
  Status copy(void* to, const void* from, size_t bytes) override { return device_->copy(to, from, bytes); }
  PointerKind kind_of(const void* pointer) const override { return device_->kind_of(pointer); }
  Result<std::vector<std::byte>> export_memory(const std::byte* memory) override { return device_->export_memory(memory); }
  Result<std::byte*> import_memory(std::span<const std::byte>) override {
    TUTTI_TRY_ASSIGN(elsewhere_, device_->allocate(bytes_));
    return device_->kernel_address(elsewhere_);
  }
  Result<std::unique_ptr<Running>> launch(KernelId kernel, uint32_t blocks, const dev::Launch& arguments, int event) override {
    return device_->launch(kernel, blocks, arguments, event);
  }

 private:
  std::unique_ptr<Device> device_;
  size_t bytes_ = 0;
  std::byte* elsewhere_ = nullptr;
};

TEST(P2p, MemoryThatReadsAsOtherBytesIsNotUsed) {
  const std::vector<std::byte> key(32, std::byte{7});
  const auto device = [](int index) { return make_sim_device({.index = index}).value(); };
  std::unique_ptr<Device> devices[2] = {device(0), std::make_unique<Misled>(device(1))};
  std::unique_ptr<P2pTransport> transports[2];
  for (uint32_t r : {0u, 1u})
    transports[r] = make_p2p_transport({.config = {}, .key = key, .self = Rank{r}, .nranks = Rank{2}}, *devices[r]).value();
  for (auto& transport : transports)
    ASSERT_TRUE(transport->set_peers({transports[0]->address(), transports[1]->address()}, {"rank 0", "rank 1"}).ok());
  EXPECT_EQ(transports[0]->unreachable_reason(Rank{1}), "");
  EXPECT_THAT(transports[1]->unreachable_reason(Rank{0}), HasSubstr("reads as other bytes than it wrote"));
}

// Memory of another communicator's rank, which has another key.
TEST(P2p, MemoryOfAStrangerIsNotUsed) {
  const auto device = make_sim_device({.index = 0}).value();
  std::unique_ptr<P2pTransport> transports[2];
  for (uint32_t r : {0u, 1u}) {
    const std::vector<std::byte> key(32, static_cast<std::byte>(r));
    transports[r] = make_p2p_transport({.config = {}, .key = key, .self = Rank{r}, .nranks = Rank{2}}, *device).value();
  }
  ASSERT_TRUE(transports[0]->set_peers({transports[0]->address(), transports[1]->address()}, {"rank 0", "rank 1"}).ok());
  EXPECT_THAT(transports[0]->unreachable_reason(Rank{1}), HasSubstr("other bytes"));
}

}  // namespace
}  // namespace tutti
