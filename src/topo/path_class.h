// Path classes: how near two devices of a machine are to each other, in NCCL's words.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti {

// From the nearest to the farthest.
//   loc  the same device                      p2c  by a chip-to-chip link and the processor's PCI
//   nvl  NVLink or xGMI, also by NVSwitches   pxn  to a network card by way of another GPU, which is nearer to it
//   nvb  NVLinks by way of another GPU        phb  through the processor
//   c2c  a chip-to-chip link                  sys  from one NUMA node to another
//   pix  at most one PCI switch               net  another host
//   pxb  several PCI switches
enum class PathClass : uint8_t { loc, nvl, nvb, c2c, pix, pxb, p2c, pxn, phb, sys, net };
std::string_view name_of(PathClass path_class);  // "LOC", "NVL", ...
// In capitals or not. False when `name` is none.
bool parse_path_class(std::string_view name, PathClass& path_class);

}  // namespace tutti
