#include "base/types.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <string>

namespace tutti {
namespace {

constexpr std::array<std::string_view, kDataTypeCount> kTypeNames = {
    "int8", "uint8", "int32", "uint32", "int64", "uint64",
    "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
constexpr std::array<std::string_view, kReduceOpCount> kOpNames = {"sum", "prod", "max", "min", "avg", "mulsum"};
constexpr std::array<std::string_view, kCollectiveCount> kCollectiveNames = {
    "all_reduce", "broadcast", "reduce", "reduce_scatter", "all_gather", "all_to_all",
    "gather", "scatter", "send", "recv", "barrier"};

std::string squeezed(std::string_view name) {
  std::string out;
  for (char c : name)
    if (c != '_') out.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  return out;
}

template <class Enum, size_t N>
std::optional<Enum> find_name(const std::array<std::string_view, N>& names, std::string_view name) {
  for (size_t i = 0; i < N; ++i)
    if (squeezed(names[i]) == squeezed(name)) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace

std::string_view name_of(DataType type) { return kTypeNames[static_cast<size_t>(type)]; }
std::string_view name_of(ReduceOp op) { return kOpNames[static_cast<size_t>(op)]; }
std::string_view name_of(Collective collective) { return kCollectiveNames[static_cast<size_t>(collective)]; }

std::optional<DataType> parse_data_type(std::string_view name) {
  if (name == "float16") return DataType::float16;
  if (name == "float32") return DataType::float32;
  if (name == "float64") return DataType::float64;
  return find_name<DataType>(kTypeNames, name);
}
std::optional<ReduceOp> parse_reduce_op(std::string_view name) { return find_name<ReduceOp>(kOpNames, name); }
std::optional<Collective> parse_collective(std::string_view name) {
  return find_name<Collective>(kCollectiveNames, name);
}
std::string collective_names() { return fmt::format("{}", fmt::join(kCollectiveNames, ", ")); }

}  // namespace tutti
