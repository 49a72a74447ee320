// Path classes, bandwidths and cards of GPUs: golden for machines whose wiring is known.
#include <gmock/gmock.h>

#include "files.h"
#include "topo/fabric.h"

namespace tutti {
namespace {

// The class of each GPU's path to each other, a word each, a line per GPU.
std::string classes(const Fabric& fabric) {
  std::string text;
  for (uint32_t a = 0; a < fabric.gpus(); ++a)
    for (uint32_t b = 0; b < fabric.gpus(); ++b)
      text += std::string(name_of(fabric.between_gpus(a, b).path_class)) + (b + 1 < fabric.gpus() ? " " : "\n");
  return text;
}

std::string classes_to_nics(const Fabric& fabric) {
  std::string text;
  for (uint32_t a = 0; a < fabric.gpus(); ++a)
    for (uint32_t n = 0; n < fabric.nics(); ++n)
      text += std::string(name_of(fabric.to_nic(a, n).path_class)) + (n + 1 < fabric.nics() ? " " : "\n");
  return text;
}

std::vector<int> nics(const Fabric& fabric) {
  std::vector<int> list;
  for (uint32_t g = 0; g < fabric.gpus(); ++g) list.push_back(fabric.nic_of(g));
  return list;
}

std::string all_alike(uint32_t n, const char* word) {
  std::string text;
  for (uint32_t a = 0; a < n; ++a)
    for (uint32_t b = 0; b < n; ++b) text += std::string(a == b ? "LOC" : word) + (b + 1 < n ? " " : "\n");
  return text;
}

TEST(Fabric, CubeMeshReachesFarCornersThroughAnotherGpu) {
  const Fabric fabric(own("v100_cube_mesh.xml"));
  EXPECT_EQ(classes(fabric),
            "LOC NVL NVL NVL NVL NVB NVB NVB\n"
            "NVL LOC NVL NVL NVB NVL NVB NVB\n"
            "NVL NVL LOC NVL NVB NVB NVL NVB\n"
            "NVL NVL NVL LOC NVB NVB NVB NVL\n"
            "NVL NVB NVB NVB LOC NVL NVL NVL\n"
            "NVB NVL NVB NVB NVL LOC NVL NVL\n"
            "NVB NVB NVL NVB NVL NVL LOC NVL\n"
            "NVB NVB NVB NVL NVL NVL NVL LOC\n");
  EXPECT_DOUBLE_EQ(fabric.between_gpus(0, 1).gb_s, 20);
  EXPECT_DOUBLE_EQ(fabric.between_gpus(0, 3).gb_s, 40);
  EXPECT_EQ(fabric.between_gpus(0, 7).hops, 2u);
  EXPECT_DOUBLE_EQ(fabric.between_gpus(0, 7).gb_s, 40);  // by 4, not by 3, where there is one link
  EXPECT_THAT(nics(fabric), testing::ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_EQ(fabric.to_nic(0, 0).path_class, PathClass::pix);
  EXPECT_EQ(fabric.to_nic(0, 1).path_class, PathClass::pxn);  // by way of GPU 2 or 3
  EXPECT_DOUBLE_EQ(fabric.to_nic(0, 0).gb_s, 12);             // PCIe 3, 16 lanes; the card could do 12.5
}

TEST(Fabric, NvSwitchJoinsAll) {
  const Fabric fabric(own("nvswitch_node.xml"));
  EXPECT_EQ(classes(fabric), all_alike(8, "NVL"));
  EXPECT_DOUBLE_EQ(fabric.between_gpus(0, 7).gb_s, 18 * 20.6);
  EXPECT_THAT(nics(fabric), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(fabric.to_nic(3, 3).path_class, PathClass::pix);
  EXPECT_DOUBLE_EQ(fabric.to_nic(3, 3).gb_s, 48);
  EXPECT_EQ(fabric.to_nic(3, 5).path_class, PathClass::pxn);
}

TEST(Fabric, WithoutLinksPciIsAllThereIs) {
  const Fabric fabric(own("pcie_node.xml"));
  EXPECT_EQ(classes(fabric),
            "LOC PIX SYS SYS\n"
            "PIX LOC SYS SYS\n"
            "SYS SYS LOC PHB\n"
            "SYS SYS PHB LOC\n");
  EXPECT_DOUBLE_EQ(fabric.between_gpus(0, 1).gb_s, 24);
  EXPECT_DOUBLE_EQ(fabric.between_gpus(0, 2).gb_s, 16);  // between AMD's processors
  EXPECT_EQ(classes_to_nics(fabric), "PIX\nPIX\nSYS\nSYS\n");
  EXPECT_THAT(nics(fabric), testing::Each(0));
}

TEST(Fabric, IntelProcessorsCutTrafficOfGpus) {
  const std::string text =
      "<system version=\"1\"><cpu numaid=\"0\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\">"
      "<pci busid=\"0:1:0.0\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"16\"/>"
      "<pci busid=\"0:2:0.0\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"16\"/></cpu></system>";
  const Fabric fabric(parse_topology("two", text).value().machine);
  EXPECT_EQ(fabric.between_gpus(0, 1).path_class, PathClass::phb);
  EXPECT_DOUBLE_EQ(fabric.between_gpus(0, 1).gb_s, 10);
}

TEST(Fabric, ChipToChipLinksLeadToCardsThroughTheProcessor) {
  const std::string text =
      "<system version=\"1\"><cpu numaid=\"0\" arch=\"arm64\">"
      "<pci busid=\"0:1:0.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"1\">"
      "<gpu dev=\"0\" sm=\"90\"><c2c bw=\"42500\" count=\"10\"/></gpu></pci>"
      "<pci busid=\"0:2:0.0\" class=\"0x020700\" link_speed=\"32 GT/s\" link_width=\"16\">"
      "<nic><net name=\"mlx5_0\" speed=\"400000\"/></nic></pci></cpu></system>";
  const Fabric fabric(parse_topology("grace", text).value().machine);
  EXPECT_EQ(fabric.to_nic(0, 0).path_class, PathClass::p2c);
  EXPECT_DOUBLE_EQ(fabric.to_nic(0, 0).gb_s, 48);
}

TEST(Fabric, CardsThatAreDownServeNobody) {
  Machine machine = own("v100_cube_mesh.xml");
  machine.nics[0].up = false;
  const Fabric fabric(machine);
  EXPECT_EQ(nics(fabric)[2], 1);
  EXPECT_NE(nics(fabric)[0], 0);
  for (Nic& nic : machine.nics) nic.up = false;
  EXPECT_THAT(nics(Fabric(machine)), testing::Each(kNone));
}

TEST(Fabric, NamesReadBack) {
  PathClass path_class = PathClass::loc;
  EXPECT_TRUE(parse_path_class("pxb", path_class));
  EXPECT_EQ(path_class, PathClass::pxb);
  EXPECT_FALSE(parse_path_class("PXX", path_class));
}

// ---- real machines

TEST(RealFabric, Dgx2) {
  TUTTI_NEED_SHARED();
  const Machine machine = machine_of(shared_folder() / "hwloc-xml/nvidiaDGX2.xml");
  EXPECT_EQ(machine.nvswitches.size(), 12u);
  const Fabric fabric(machine);
  EXPECT_EQ(classes(fabric), all_alike(16, "NVL"));
  EXPECT_DOUBLE_EQ(fabric.between_gpus(0, 15).gb_s, 120);  // six links of 20
}

TEST(RealFabric, Power8) {
  TUTTI_NEED_SHARED();
  const Fabric fabric(machine_of(shared_folder() / "hwloc-xml/power8gpudistances.xml"));
  EXPECT_EQ(classes(fabric),
            "LOC NVL SYS SYS\n"
            "NVL LOC SYS SYS\n"
            "SYS SYS LOC NVL\n"
            "SYS SYS NVL LOC\n");
  EXPECT_DOUBLE_EQ(fabric.between_gpus(0, 1).gb_s, 36);  // two of P100's links
}

TEST(RealFabric, OciH100) {
  TUTTI_NEED_SHARED();
  const Fabric fabric(machine_of(shared_folder() / "nccl-xml/oci-h100.xml"));
  EXPECT_EQ(classes(fabric), all_alike(8, "NVL"));
  EXPECT_DOUBLE_EQ(fabric.between_gpus(0, 7).gb_s, 18 * 20.6);
  ASSERT_EQ(fabric.nics(), 16u);
  // Broadcom's two layers are one switch; both ports of the card below it are as near.
  for (uint32_t g = 0; g < 8; ++g) {
    EXPECT_THAT(fabric.nearest_nics(g), testing::ElementsAre(2 * g, 2 * g + 1));
    EXPECT_EQ(fabric.to_nic(g, 2 * g).path_class, PathClass::pix);
    EXPECT_DOUBLE_EQ(fabric.to_nic(g, 2 * g).gb_s, 22.5);
  }
}

TEST(RealFabric, Mi300x) {
  TUTTI_NEED_SHARED();
  const Fabric fabric(machine_of(shared_folder() / "nccl-xml/rccl-topo_8p_940.xml"));
  EXPECT_EQ(classes(fabric), all_alike(8, "NVL"));
  EXPECT_DOUBLE_EQ(fabric.between_gpus(2, 5).gb_s, 48);
  EXPECT_THAT(nics(fabric), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  for (uint32_t g = 0; g < 8; ++g) EXPECT_EQ(fabric.to_nic(g, g).path_class, PathClass::pxb);
}

TEST(RealFabric, Mi250) {
  TUTTI_NEED_SHARED();
  const Fabric fabric(machine_of(shared_folder() / "nccl-xml/rccl-topo_8p_90a.xml"));
  EXPECT_EQ(classes(fabric),
            "LOC NVL NVL NVB NVB NVB NVL NVB\n"
            "NVL LOC NVB NVL NVB NVL NVB NVB\n"
            "NVL NVB LOC NVL NVL NVB NVB NVB\n"
            "NVB NVL NVL LOC NVB NVB NVB NVL\n"
            "NVB NVB NVL NVB LOC NVL NVL NVB\n"
            "NVB NVL NVB NVB NVL LOC NVB NVL\n"
            "NVL NVB NVB NVB NVL NVB LOC NVL\n"
            "NVB NVB NVB NVL NVB NVL NVL LOC\n");
  EXPECT_DOUBLE_EQ(fabric.between_gpus(0, 1).gb_s, 36);
  EXPECT_THAT(nics(fabric), testing::Each(0));
}

TEST(RealFabric, FourWithLinksAndWithout) {
  TUTTI_NEED_SHARED();
  const Fabric with(machine_of(shared_folder() / "nccl-xml/rccl-topo_4p3l.xml"));
  EXPECT_EQ(classes(with), all_alike(4, "NVL"));
  EXPECT_DOUBLE_EQ(with.between_gpus(0, 3).gb_s, 24);
  // The hypervisor hides what the links of these lead to.
  const Fabric without(machine_of(shared_folder() / "nccl-xml/azure-ncv4.xml"));
  EXPECT_EQ(classes(without), all_alike(4, "SYS"));
  EXPECT_DOUBLE_EQ(without.between_gpus(0, 3).gb_s, 12);
}

TEST(RealFabric, SkeletonsGivePciClassesAndCards) {
  TUTTI_NEED_SHARED();
  const Fabric ndv2(machine_of(shared_folder() / "nccl-xml/azure-ndv2.xml"));
  ASSERT_EQ(ndv2.gpus(), 8u);
  EXPECT_EQ(ndv2.between_gpus(0, 3).path_class, PathClass::phb);
  EXPECT_EQ(ndv2.between_gpus(0, 4).path_class, PathClass::sys);
  EXPECT_EQ(classes_to_nics(ndv2), "PHB\nPHB\nPHB\nPHB\nSYS\nSYS\nSYS\nSYS\n");
  const Fabric ndv4(machine_of(shared_folder() / "nccl-xml/azure-ndv4.xml"));
  ASSERT_EQ(ndv4.gpus(), 8u);
  ASSERT_EQ(ndv4.nics(), 8u);
  EXPECT_EQ(ndv4.between_gpus(0, 1).path_class, PathClass::pix);
  EXPECT_EQ(ndv4.between_gpus(0, 2).path_class, PathClass::sys);
  // Two cards are as near as each other to the two GPUs of a switch, which take one each.
  EXPECT_THAT(nics(ndv4), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  const Fabric p4d(machine_of(shared_folder() / "nccl-xml/aws-p4d-24xl.xml"));
  ASSERT_EQ(p4d.gpus(), 8u);
  EXPECT_EQ(p4d.between_gpus(0, 1).path_class, PathClass::pix);
  EXPECT_EQ(p4d.between_gpus(0, 2).path_class, PathClass::phb);
  EXPECT_EQ(p4d.between_gpus(0, 4).path_class, PathClass::sys);
  EXPECT_THAT(nics(p4d), testing::ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
}

}  // namespace
}  // namespace tutti
