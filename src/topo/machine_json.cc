#include <nlohmann/json.hpp>

#include "topo/read.h"
#include "topo/write.h"
#include "topo/xml_file.h"

namespace tutti {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMost32 = UINT32_MAX;
// What XML allows, when each of its bytes was no UTF-8 and is replaced by three.
constexpr size_t kMostTextBytes = 3 * XmlFile::kMostTextBytes;
constexpr std::string_view kTargetNames[] = {"gpu", "nvswitch", "numa"};
constexpr PciKind kKinds[] = {PciKind::bridge, PciKind::gpu, PciKind::nic, PciKind::nvswitch, PciKind::other};

// Members by type and range, with the first error kept, as XmlFile does it.
class JsonReader {
 public:
  explicit JsonReader(std::string name) : name_(std::move(name)) {}
  const Status& status() const { return status_; }

  void enter(std::string_view list, size_t index) { place_ = fmt::format("{}[{}]", list, index); }

  uint64_t number(const Json& object, const char* key, uint64_t most, uint64_t otherwise = 0) {
    const Json* member = find(object, key);
    if (!member) return otherwise;
    if (member->is_number_unsigned() && member->get<uint64_t>() <= most) return member->get<uint64_t>();
    refuse(key, *member, fmt::format("a whole number from 0 to {}", most));
    return otherwise;
  }
  uint32_t number32(const Json& object, const char* key, uint64_t otherwise = 0) {
    return static_cast<uint32_t>(number(object, key, kMost32, otherwise));
  }
  // An index, or null: none.
  int32_t index(const Json& object, const char* key) {
    const Json* member = find(object, key);
    if (!member || member->is_null()) return kNone;
    return static_cast<int32_t>(number(object, key, kMostPci));
  }
  double decimal(const Json& object, const char* key) {
    const Json* member = find(object, key);
    if (!member) return 0;
    if (member->is_number() && member->get<double>() >= 0 && member->get<double>() <= 1e6) return member->get<double>();
    refuse(key, *member, "a number from 0 to 1e6");
    return 0;
  }
  bool flag(const Json& object, const char* key, bool otherwise) {
    const Json* member = find(object, key);
    if (!member) return otherwise;
    if (member->is_boolean()) return member->get<bool>();
    refuse(key, *member, "true or false");
    return otherwise;
  }
  std::string text(const Json& object, const char* key) {
    const Json* member = find(object, key);
    if (!member) return {};
    if (member->is_string() && member->get_ref<const std::string&>().size() <= kMostTextBytes)
      return member->get<std::string>();
    refuse(key, *member, fmt::format("a text of at most {} bytes", kMostTextBytes));
    return {};
  }
  BusId bus(const Json& object, const char* key) {
    BusId result;
    const Json* member = find(object, key);
    if (member && member->is_string() && parse_bus_id(member->get_ref<const std::string&>(), result)) return result;
    refuse(key, member ? *member : Json(), "a PCI address like \"0000:1b:00.0\"");
    return {};
  }
  // The place of a word in a list of them.
  size_t word(const Json& object, const char* key, std::span<const std::string_view> words) {
    const std::string value = text(object, key);
    for (size_t i = 0; i < words.size(); ++i)
      if (words[i] == value) return i;
    refuse(key, Json(value), fmt::format("one of {}", fmt::join(words, ", ")));
    return 0;
  }
  // Calls `read` for each object of a list, which may be missing.
  template <class Read>
  void each(const Json& object, const char* key, size_t most, Read&& read) {
    place_ = "the file";
    const Json* list = find(object, key);
    if (!list) return;
    if (!list->is_array() || list->size() > most)
      return refuse(key, list->is_array() ? Json(list->size()) : *list, fmt::format("a list of at most {}", most));
    for (size_t i = 0; i < list->size() && status_.ok(); ++i) {
      enter(key, i);
      if (!(*list)[i].is_object()) return refuse(key, (*list)[i], "a list of objects");
      read((*list)[i]);
    }
  }
  void refuse(std::string_view key, const Json& given, std::string_view allowed) {
    if (!status_.ok()) return;
    std::string shown = given.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (shown.size() > 40) shown = shown.substr(0, 40) + "...";
    status_ = invalid_usage("{}: {}: {} is {}; it may be {}", name_, place_, key, shown, allowed);
  }

 private:
  static const Json* find(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
  }
  std::string name_, place_ = "the file";
  Status status_;
};

std::array<std::string_view, std::size(kKinds)> kind_names() {
  std::array<std::string_view, std::size(kKinds)> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = name_of(kKinds[i]);
  return names;
}

NumaNode read_numa(JsonReader& in, const Json& j) {
  return {in.number32(j, "os_index"), in.number32(j, "package"), in.text(j, "arch"), in.text(j, "vendor"),
          in.number32(j, "family"),   in.number32(j, "model"),   in.text(j, "cores")};
}

PciDevice read_pci(JsonReader& in, const Json& j) {
  PciDevice device;
  device.bus = in.bus(j, "bus");
  device.kind = kKinds[in.word(j, "kind", kind_names())];
  device.parent = in.index(j, "parent");
  device.numa = in.number32(j, "numa");
  device.class_code = in.number32(j, "class");
  device.vendor = in.number32(j, "vendor");
  device.device = in.number32(j, "device");
  device.subsystem_vendor = in.number32(j, "subsystem_vendor");
  device.subsystem_device = in.number32(j, "subsystem_device");
  device.lane_gt_s = in.decimal(j, "lane_gt_s");
  device.lanes = static_cast<uint32_t>(in.number(j, "lanes", 64));
  return device;
}

Nic read_nic(JsonReader& in, const Json& j) {
  Nic nic;
  nic.pci = in.index(j, "pci");
  nic.numa = in.number32(j, "numa");
  nic.name = in.text(j, "name");
  nic.interface = in.text(j, "interface");
  nic.dev = in.number32(j, "dev");
  nic.port = in.number32(j, "port");
  nic.mbit_s = in.number32(j, "mbit_s");
  nic.guid = in.number(j, "guid", UINT64_MAX);
  nic.gdr = in.flag(j, "gdr", false);
  nic.up = in.flag(j, "up", true);
  nic.mtu = in.number32(j, "mtu");
  const auto addresses = j.find("addresses");
  if (addresses == j.end()) return nic;
  if (!addresses->is_array() || addresses->size() > 64)
    in.refuse("addresses", *addresses, "a list of at most 64 texts");
  if (!in.status().ok()) return nic;
  for (const Json& address : *addresses) {
    if (!address.is_string())
      in.refuse("addresses", address, "a list of texts");
    else
      nic.addresses.push_back(address.get<std::string>());
  }
  return nic;
}

GpuLink read_link(JsonReader& in, const Json& j) {
  GpuLink link;
  link.gpu = in.number32(j, "gpu");
  link.target_kind = static_cast<GpuLinkTarget>(in.word(j, "to", kTargetNames));
  link.target = in.number32(j, "target");
  link.count = static_cast<uint32_t>(in.number(j, "count", 1024));
  link.gb_s = in.decimal(j, "gb_s");
  link.xgmi = in.flag(j, "xgmi", false);
  link.c2c = in.flag(j, "c2c", false);
  return link;
}

}  // namespace

Result<Machine> parse_machine_json(const std::string& name, const std::string& text) {
  if (text.size() > XmlFile::kMostBytes)
    return invalid_usage("{}: {} bytes; a topology file has at most {}", name, text.size(), XmlFile::kMostBytes);
  Json root;
  try {
    root = Json::parse(text);
  } catch (const Json::exception& error) {
    const std::string_view message = error.what();  // "[json.exception.parse_error.101] parse error at line 3, ..."
    return invalid_usage("{}: not JSON: {}", name, message.substr(std::min(message.find("] ") + 2, message.size())));
  }
  JsonReader in(name);
  if (!root.is_object() || in.number(root, "tutti_machine", kMost32) != 1)
    return invalid_usage("{}: no machine; it needs \"tutti_machine\": 1, as tutti topo --format json writes it", name);
  Machine machine;
  in.each(root, "numas", kMostNumas, [&](const Json& j) { machine.numas.push_back(read_numa(in, j)); });
  in.each(root, "pci", kMostPci, [&](const Json& j) { machine.pci.push_back(read_pci(in, j)); });
  in.each(root, "gpus", kMostGpus, [&](const Json& j) {
    machine.gpus.push_back({in.number32(j, "pci"), in.number32(j, "dev"), in.number32(j, "sm"), in.text(j, "arch"),
                            in.text(j, "model"), in.flag(j, "gdr", false)});
  });
  in.each(root, "nics", kMostNics, [&](const Json& j) { machine.nics.push_back(read_nic(in, j)); });
  in.each(root, "nvswitches", kMostPci, [&](const Json& j) { machine.nvswitches.push_back({in.bus(j, "bus")}); });
  in.each(root, "links", kMostGpuLinks, [&](const Json& j) { machine.links.push_back(read_link(in, j)); });
  if (!in.status().ok()) return in.status();
  if (Status status = check(machine); !status.ok()) return status.within(name);
  return machine;
}

std::string to_json(const Machine& machine) {
  const auto index = [](int32_t i) { return i == kNone ? Json() : Json(i); };
  Json root = {{"tutti_machine", 1}};
  Json& numas = root["numas"] = Json::array();
  for (const NumaNode& n : machine.numas)
    numas.push_back({{"os_index", n.os_index},
                     {"package", n.package},
                     {"arch", n.arch},
                     {"vendor", n.vendor},
                     {"family", n.family},
                     {"model", n.model},
                     {"cores", n.cores}});
  Json& pci = root["pci"] = Json::array();
  for (const PciDevice& d : machine.pci)
    pci.push_back({{"bus", to_text(d.bus)},
                   {"kind", name_of(d.kind)},
                   {"parent", index(d.parent)},
                   {"numa", d.numa},
                   {"class", d.class_code},
                   {"vendor", d.vendor},
                   {"device", d.device},
                   {"subsystem_vendor", d.subsystem_vendor},
                   {"subsystem_device", d.subsystem_device},
                   {"lane_gt_s", d.lane_gt_s},
                   {"lanes", d.lanes}});
  Json& gpus = root["gpus"] = Json::array();
  for (const Gpu& g : machine.gpus)
    gpus.push_back(
        {{"pci", g.pci}, {"dev", g.dev}, {"sm", g.sm}, {"arch", g.arch}, {"model", g.model}, {"gdr", g.gdr}});
  Json& nics = root["nics"] = Json::array();
  for (const Nic& n : machine.nics)
    nics.push_back({{"pci", index(n.pci)},
                    {"numa", n.numa},
                    {"name", n.name},
                    {"interface", n.interface},
                    {"dev", n.dev},
                    {"port", n.port},
                    {"mbit_s", n.mbit_s},
                    {"guid", n.guid},
                    {"gdr", n.gdr},
                    {"up", n.up},
                    {"mtu", n.mtu},
                    {"addresses", n.addresses}});
  Json& nvswitches = root["nvswitches"] = Json::array();
  for (const NvSwitch& s : machine.nvswitches) nvswitches.push_back({{"bus", to_text(s.bus)}});
  Json& links = root["links"] = Json::array();
  for (const GpuLink& l : machine.links)
    links.push_back({{"gpu", l.gpu},
                     {"to", kTargetNames[static_cast<size_t>(l.target_kind)]},
                     {"target", l.target},
                     {"count", l.count},
                     {"gb_s", l.gb_s},
                     {"xgmi", l.xgmi},
                     {"c2c", l.c2c}});
  return root.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tutti
