// Readers and writers: what files say is what the Machine holds, and a bad file gets its name, line and what is wrong.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "files.h"
#include "topo/probe.h"
#include "topo/write.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string error_of(const std::string& text) {
  const Result<TopologyFile> file = parse_topology("some.xml", text);
  return file.ok() ? "no error" : std::string(file.status().message());
}

TEST(Read, NcclXmlHoldsTheTree) {
  const Machine machine = own("v100_cube_mesh.xml");
  ASSERT_EQ(machine.gpus.size(), 8u);
  ASSERT_EQ(machine.nics.size(), 4u);
  EXPECT_EQ(machine.numas.size(), 2u);
  EXPECT_EQ(machine.pci.size(), 16u);
  EXPECT_EQ(machine.numas[1].model, 79u);
  EXPECT_EQ(machine.nics[3].name, "mlx5_3");
  EXPECT_EQ(machine.nics[3].mbit_s, 100000u);
  EXPECT_EQ(machine.gpus[5].sm, 70u);
  const PciDevice& gpu = machine.pci[machine.gpus[5].pci];
  EXPECT_EQ(to_text(gpu.bus), "0000:36:00.0");
  EXPECT_EQ(gpu.numa, 1u);
  EXPECT_EQ(to_text(machine.pci[static_cast<size_t>(gpu.parent)].bus), "0000:31:00.0");
  EXPECT_EQ(machine.links.size(), 32u);  // four neighbours of each of eight
  EXPECT_EQ(machine.links[2].count, 2u);
  EXPECT_DOUBLE_EQ(machine.links[2].gb_s, 40);
}

TEST(Read, HwlocXmlHoldsTheTree) {
  const Machine machine = own("laptop.xml");
  ASSERT_EQ(machine.gpus.size(), 1u);  // the processor's own display is none
  ASSERT_EQ(machine.nics.size(), 1u);
  EXPECT_EQ(machine.nics[0].name, "wlan0");
  EXPECT_EQ(machine.gpus[0].model, "GeForce RTX");
  const PciDevice& gpu = machine.pci[machine.gpus[0].pci];
  EXPECT_EQ(gpu.parent, kNone);  // a root port is no switch
  EXPECT_EQ(gpu.vendor, 0x10deu);
  EXPECT_EQ(gpu.lanes, 4u);  // 3.94 GB/s on the wire
  EXPECT_DOUBLE_EQ(gpu.lane_gt_s, 8);
  EXPECT_EQ(machine.numas[0].vendor, "GenuineIntel");
  EXPECT_EQ(machine.numas[0].cores, "000000ff");
}

TEST(Read, GraphXmlHoldsTheChannels) {
  const Result<TopologyFile> file = read_topology((data_folder() / "rings.xml").string());
  ASSERT_TRUE(file.ok()) << file.status().c_str();
  EXPECT_EQ(file.value().format, TopologyFormat::nccl_graph_xml);
  ASSERT_EQ(file.value().graphs.size(), 1u);
  const ChannelGraph& graph = file.value().graphs[0];
  EXPECT_EQ(graph.pattern, 4u);
  EXPECT_EQ(graph.type_inter, "PIX");
  ASSERT_EQ(graph.channels.size(), 2u);
  const ChannelGraph::Step net{ChannelGraph::Stop::net, 1}, second{ChannelGraph::Stop::gpu, 1};
  EXPECT_THAT(graph.channels[1],
              testing::ElementsAre(net, second, ChannelGraph::Step{ChannelGraph::Stop::gpu, 0}, net));
}

TEST(Read, JsonKeepsEverything) {
  for (const char* name :
       {"v100_cube_mesh.xml", "nvswitch_node.xml", "pcie_node.xml", "laptop.xml", "two_rails.json"}) {
    const Machine machine = own(name);
    const Result<TopologyFile> again = parse_topology("again.json", to_json(machine));
    ASSERT_TRUE(again.ok()) << name << ": " << again.status().c_str();
    EXPECT_EQ(again.value().machine, machine) << name;
  }
}

TEST(Read, NcclXmlKeepsWhatItHasRoomFor) {
  for (const char* name : {"v100_cube_mesh.xml", "nvswitch_node.xml", "pcie_node.xml"}) {
    const Machine machine = own(name);
    const Result<TopologyFile> again = parse_topology("again.xml", to_nccl_xml(machine));
    ASSERT_TRUE(again.ok()) << name << ": " << again.status().c_str();
    EXPECT_EQ(again.value().machine, machine) << name;
  }
}

TEST(Read, EveryFileOfRealMachines) {
  TUTTI_NEED_SHARED();
  size_t files = 0, graphs = 0;
  for (const char* folder : {"nccl-xml", "hwloc-xml"})
    for (const auto& entry : std::filesystem::directory_iterator(shared_folder() / folder)) {
      const Result<TopologyFile> file = read_topology(entry.path().string());
      ASSERT_TRUE(file.ok()) << file.status().c_str();
      ++files;
      graphs += file.value().format == TopologyFormat::nccl_graph_xml;
      if (file.value().format == TopologyFormat::nccl_graph_xml) continue;
      const Result<TopologyFile> again = parse_topology("again.json", to_json(file.value().machine));
      ASSERT_TRUE(again.ok()) << entry.path() << ": " << again.status().c_str();
      EXPECT_EQ(again.value().machine, file.value().machine) << entry.path();
      std::set<BusId> addresses;
      for (const PciDevice& device : file.value().machine.pci) addresses.insert(device.bus);
      if (addresses.size() < file.value().machine.pci.size()) continue;  // one was put together by hand
      const Result<TopologyFile> nccl = parse_topology("again.xml", to_nccl_xml(file.value().machine));
      EXPECT_TRUE(nccl.ok()) << entry.path() << ": " << nccl.status().c_str();
    }
  EXPECT_EQ(files, 23u);
  EXPECT_EQ(graphs, 1u);
}

TEST(Read, SysfsDumpsOfRealMachines) {
  TUTTI_NEED_SHARED();
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("tutti-topo-" + std::to_string(::getpid()));
  std::map<std::string, Machine> machines;
  for (const auto& entry : std::filesystem::directory_iterator(shared_folder() / "hwloc-linux")) {
    const std::filesystem::path unpacked = folder / entry.path().stem();
    std::filesystem::create_directories(unpacked);
    const std::string command = "tar -xjf '" + entry.path().string() + "' -C '" + unpacked.string() + "'";
    if (std::system(command.c_str()) != 0) GTEST_SKIP() << "tar or bzip2 is missing";
    machines[entry.path().stem().stem()] = machine_of(unpacked);
  }
  std::filesystem::remove_all(folder);
  ASSERT_EQ(machines.size(), 3u);
  const Machine& power = machines["nvidiagpunumanodes"];
  EXPECT_EQ(power.gpus.size(), 6u);
  EXPECT_EQ(power.numas.size(), 2u);  // memory of GPUs is no node of its own
  const Machine& intel = machines["40intel64-2g2n4c+pcilocality"];
  EXPECT_EQ(intel.numas.size(), 4u);
  EXPECT_NE(std::ranges::find(intel.nics, "qib0", &Nic::name), intel.nics.end());
  EXPECT_EQ(intel.gpus.size(), 0u);  // a console's display is none
  EXPECT_EQ(machines["nvidia-dgx-gb10"].numas.size(), 1u);
}

TEST(Read, ErrorsNameFileLineAndWhatIsAllowed) {
  EXPECT_THAT(error_of("<system version=\"1\">\n <cpu>\n  <pci busid=\"what\"/>\n </cpu>\n</system>"),
              AllOf(HasSubstr("some.xml:3:"), HasSubstr("what"), HasSubstr("0000:1b:00.0")));
  EXPECT_THAT(error_of("<system version=\"7\"><cpu/></system>"), AllOf(HasSubstr(":1:"), HasSubstr("1 (NCCL) or 2")));
  EXPECT_THAT(error_of("<system version=\"1\"></system>"), HasSubstr("no <cpu>"));
  EXPECT_THAT(error_of("<system version=\"1\">\n<cpu numaid=\"-1\"/></system>"),
              AllOf(HasSubstr(":2:"), HasSubstr("whole number from 0 to")));
  EXPECT_THAT(error_of("<system version=\"1\"><cpu>\n<pci"), HasSubstr("some.xml:2: not XML"));
  EXPECT_THAT(error_of("<rack/>"), AllOf(HasSubstr("<rack>"), HasSubstr("<topology>")));
  EXPECT_THAT(error_of("{\"tutti_machine\": 2}"), HasSubstr("\"tutti_machine\": 1"));
  EXPECT_THAT(error_of("{\n\"tutti_machine\": 1,,}"), HasSubstr("line 2"));
  EXPECT_THAT(error_of("{\"tutti_machine\": 1, \"numas\": [{\"family\": -3}]}"),
              AllOf(HasSubstr("numas[0]"), HasSubstr("family is -3")));
  EXPECT_THAT(error_of("{\"tutti_machine\": 1, \"numas\": [{}], \"gpus\": [{\"pci\": 4}]}"),
              AllOf(HasSubstr("GPU 0"), HasSubstr("4")));
  EXPECT_THAT(error_of("<topology version=\"1.9\"/>"), HasSubstr("2.x or 3.x"));
  EXPECT_THAT(error_of(""), HasSubstr("some.xml:1:"));
}

TEST(Read, FilesThatAreNotThereSayWhy) {
  const Result<TopologyFile> missing = read_topology("/nonexistent/topo.xml");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(std::string(missing.status().message()), AllOf(HasSubstr("/nonexistent/topo.xml"), HasSubstr("ENOENT")));
  const Result<TopologyFile> folder = read_topology("/proc/self/fd");
  ASSERT_FALSE(folder.ok());
  EXPECT_THAT(std::string(folder.status().message()), HasSubstr("hwloc-gather-topology"));
}

TEST(Read, HostileFilesAreRefused) {
  std::string deep = "<system version=\"1\"><cpu>";
  for (int i = 0; i < 100'000; ++i) deep += "<pci>";
  for (int i = 0; i < 100'000; ++i) deep += "</pci>";
  EXPECT_THAT(error_of(deep + "</cpu></system>"), HasSubstr("deep"));
  std::string wide = "<system version=\"1\">";
  for (int i = 0; i < 200'000; ++i) wide += "<cpu/>";
  EXPECT_THAT(error_of(wide + "</system>"), HasSubstr("more than 100000 elements"));
  EXPECT_THAT(error_of(std::string(5 << 20, ' ')), HasSubstr("bytes"));
  EXPECT_THAT(error_of("{\"a\":" + std::string(100'000, '[') + "}"), HasSubstr("not JSON"));
  // Twice the same address, and one GPU twice.
  EXPECT_THAT(error_of("<system version=\"1\"><cpu><pci busid=\"1:2:3.0\"/>\n<pci busid=\"1:2:3.0\"/></cpu></system>"),
              AllOf(HasSubstr(":2:"), HasSubstr("twice")));
  // Entities of one's own are not replaced, so they cannot multiply or read files.
  const std::string entity =
      "<!DOCTYPE system [<!ENTITY e SYSTEM \"file:///etc/hostname\">]>\n"
      "<system version=\"1\"><cpu arch=\"&e;\"/></system>";
  const Result<TopologyFile> file = parse_topology("entity.xml", entity);
  if (file.ok()) {
    EXPECT_EQ(file.value().machine.numas[0].arch, "&e;");
  }
}

// Found by the fuzzer: what one reader took, another refused.
TEST(Read, LongTextsAndThoseThatAreNoUtf8ReadBack) {
  std::string text = "<topology version=\"2.0\"><object type=\"Package\" os_index=\"0\"><info name=\"CPUVendor\" value=\"" +
                     std::string(5000, '\xff') +
                     "\"/><object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x1\"/></object></topology>";
  const Result<TopologyFile> file = parse_topology("long.xml", text);
  ASSERT_TRUE(file.ok()) << file.status().c_str();
  EXPECT_EQ(file.value().machine.numas[0].vendor.size(), 2048u);
  const Result<TopologyFile> again = parse_topology("again.json", to_json(file.value().machine));
  ASSERT_TRUE(again.ok()) << again.status().c_str();
  EXPECT_EQ(again.value().machine.numas[0].vendor.size(), 3 * 2048u);  // each byte as U+FFFD
}

TEST(Probe, FindsThisMachine) {
  const Result<Machine> machine = probe_machine();
  ASSERT_TRUE(machine.ok()) << machine.status().c_str();
  EXPECT_GE(machine.value().numas.size(), 1u);
  EXPECT_FALSE(machine.value().numas[0].cores.empty());
  const Result<TopologyFile> again = parse_topology("again", to_json(machine.value()));
  ASSERT_TRUE(again.ok()) << again.status().c_str();
  EXPECT_EQ(again.value().machine, machine.value());
}

}  // namespace
}  // namespace tutti
