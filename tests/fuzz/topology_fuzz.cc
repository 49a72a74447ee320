// libFuzzer target of the topology readers: whatever the bytes, reading ends with a machine or an error, and what was
// read can be searched and written in every form, which reads back as the same.
#include <cstdint>
#include <cstdlib>

#include "topo/order.h"
#include "topo/read.h"
#include "topo/write.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace tutti;
  const Result<TopologyFile> file = parse_topology("input", std::string(reinterpret_cast<const char*>(data), bytes));
  if (!file.ok() || file.value().format == TopologyFormat::nccl_graph_xml) return 0;
  const Machine& machine = file.value().machine;
  const Result<TopologyFile> again = parse_topology("again", to_json(machine));
  // Text that is no UTF-8 is written with replacements.
  if (!again.ok() || again.value().machine.links.size() != machine.links.size()) __builtin_trap();
  (void)to_nccl_xml(machine);
  if (machine.gpus.size() <= 8 && machine.pci.size() <= 64 && machine.nics.size() <= 16)
    (void)find_order(Fabric(machine));
  return 0;
}
