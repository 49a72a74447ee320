// Orders of rings: valid, as fast as the machine allows, by the right cards, and found in time for a thousand nodes.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "files.h"
#include "topo/order.h"

namespace tutti {
namespace {

// Each lane goes through every GPU once, and no link carries more than it can.
void check_order(const Fabric& fabric, const NodeOrder& order) {
  std::vector<double> used(fabric.link_gb_s().size(), 0);
  for (const LaneOrder& lane : order.lanes) {
    ASSERT_EQ(lane.gpus.size(), fabric.gpus());
    EXPECT_EQ(std::set<uint32_t>(lane.gpus.begin(), lane.gpus.end()).size(), fabric.gpus());
    for (size_t i = 0; i < lane.gpus.size() && lane.gpus.size() > 1; ++i) {
      const uint32_t from = lane.gpus[i], to = lane.gpus[(i + 1) % lane.gpus.size()];
      for (const uint32_t link : fabric.route(from, to)) used[link] += lane.gb_s * fabric.load(from, to);
    }
  }
  for (size_t link = 0; link < used.size(); ++link) EXPECT_LE(used[link], fabric.link_gb_s()[link] + 1e-3) << link;
}

NodeOrder order_of(const Machine& machine) {
  const Fabric fabric(machine);
  NodeOrder order = find_order(fabric);
  check_order(fabric, order);
  return order;
}

TEST(Order, CubeMeshHasSixRings) {
  const NodeOrder order = order_of(own("v100_cube_mesh.xml"));
  // Each GPU has six links; six rings of one link each use all of them.
  EXPECT_EQ(order.lanes.size(), 6u);
  EXPECT_DOUBLE_EQ(order.gb_s, 120);
  for (const LaneOrder& lane : order.lanes) {
    EXPECT_EQ(lane.widest_class, PathClass::nvl);
    EXPECT_EQ(lane.in.path_class, PathClass::pix);
  }
}

TEST(Order, NvSwitchUsesAllCards) {
  const NodeOrder order = order_of(own("nvswitch_node.xml"));
  EXPECT_DOUBLE_EQ(order.gb_s, 18 * 20.6);
  ASSERT_EQ(order.lanes.size(), 8u);
  std::set<int32_t> cards;
  for (const LaneOrder& lane : order.lanes) {
    cards.insert(lane.nic);
    EXPECT_EQ(lane.in.path_class, PathClass::pix);  // the card's own GPU is the first
    EXPECT_LE(lane.out.path_class, PathClass::pxn);
  }
  EXPECT_EQ(cards.size(), 8u);
  EXPECT_NEAR(order.between_gb_s, 8 * 46.35, 1e-6);  // 370.8 by eight; the cards could do 48 each
}

TEST(Order, PciRingsPassEachSwitchOnce) {
  const NodeOrder order = order_of(own("pcie_node.xml"));
  EXPECT_DOUBLE_EQ(order.gb_s, 16);
  EXPECT_EQ(order.lanes.size(), 1u);
  EXPECT_EQ(order.lanes[0].widest_class, PathClass::sys);
}

TEST(Order, OfOneGpuAndOfNone) {
  const NodeOrder laptop = order_of(own("laptop.xml"));
  ASSERT_EQ(laptop.lanes.size(), 1u);
  EXPECT_EQ(laptop.lanes[0].widest_class, PathClass::loc);
  EXPECT_TRUE(order_of(own("two_rails.json")).lanes.empty());
}

TEST(Order, GoesThroughNodesOneAfterAnother) {
  Cluster cluster;
  for (int i = 0; i < 3; ++i) cluster.add_node(own("v100_cube_mesh.xml"));
  cluster.add_node(own("pcie_node.xml"));
  EXPECT_EQ(cluster.kinds(), 2u);
  ASSERT_EQ(cluster.ranks(), 28u);
  for (const std::vector<uint32_t>& ring : cluster.rings()) {
    ASSERT_EQ(ring.size(), 28u);
    EXPECT_EQ(std::set<uint32_t>(ring.begin(), ring.end()).size(), 28u);
    for (uint32_t i = 0; i < 28; ++i) EXPECT_EQ(std::min(ring[i] / 8, 3u), std::min(i / 8, 3u));
  }
  EXPECT_EQ(cluster.between(0, 7).path_class, PathClass::nvb);
  EXPECT_EQ(cluster.between(8, 8).path_class, PathClass::loc);
  EXPECT_EQ(cluster.between(7, 8).path_class, PathClass::net);
  EXPECT_DOUBLE_EQ(cluster.between(7, 8).gb_s, 12);
}

TEST(Order, HostsThatDifferInNamesOnlyAreOne) {
  Machine machine = own("two_rails.json");
  Cluster cluster;
  cluster.add_node(machine);
  machine.nics[0].addresses = {"192.0.2.99"};
  machine.nics[1].guid = 7;
  cluster.add_node(machine);
  EXPECT_EQ(cluster.kinds(), 1u);
  machine.nics[1].mbit_s = 1000;
  cluster.add_node(machine);
  EXPECT_EQ(cluster.kinds(), 2u);
}

// perf/ measures it; here it is only seen that the size works: 8,000 ranks would be 64 million pairs.
TEST(Order, OfAThousandNodes) {
  const Machine machine = own("nvswitch_node.xml");
  Cluster cluster;
  for (int i = 0; i < 1000; ++i) cluster.add_node(machine);
  EXPECT_EQ(cluster.kinds(), 1u);
  EXPECT_EQ(cluster.ranks(), 8000u);
  const auto rings = cluster.rings();
  ASSERT_EQ(rings.size(), 8u);
  EXPECT_EQ(std::set<uint32_t>(rings[7].begin(), rings[7].end()).size(), 8000u);
  EXPECT_EQ(cluster.between(0, 7999).path_class, PathClass::net);
}

TEST(RealOrder, HasTheKnownBandwidth) {
  TUTTI_NEED_SHARED();
  // What rings are known to reach: links of a GPU times their speed where they use all; on MI250, of whose three links
  // to neighbours two make a ring, one there and one back. More than the links can carry is ruled out by order_of().
  const std::map<std::string, double> known = {
      {"hwloc-xml/nvidiaDGX2.xml", 6 * 20.0},      {"nccl-xml/oci-h100.xml", 18 * 20.6},
      {"nccl-xml/rccl-topo_8p_940.xml", 7 * 48.0}, {"nccl-xml/rccl-topo_4p3l.xml", 3 * 24.0},
      {"nccl-xml/azure-ncv4.xml", 12.0},           {"nccl-xml/rccl-topo_8p_90a.xml", 2 * 36.0},
  };
  for (const auto& [name, gb_s] : known)
    EXPECT_GE(order_of(machine_of(shared_folder() / name)).gb_s, gb_s - 1e-6) << name;
}

TEST(RealOrder, IsValidForAll) {
  TUTTI_NEED_SHARED();
  for (const char* folder : {"nccl-xml", "hwloc-xml"})
    for (const auto& entry : std::filesystem::directory_iterator(shared_folder() / folder)) {
      const Result<TopologyFile> file = read_topology(entry.path().string());
      ASSERT_TRUE(file.ok()) << file.status().c_str();
      const NodeOrder order = order_of(file.value().machine);
      EXPECT_EQ(order.lanes.empty(), file.value().machine.gpus.empty()) << entry.path();
    }
}

}  // namespace
}  // namespace tutti
