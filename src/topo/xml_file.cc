#include "topo/xml_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/fd.h"

namespace tutti {

Result<std::unique_ptr<XmlFile>> XmlFile::parse(std::string name, std::string text) {
  auto file = std::make_unique<XmlFile>();
  file->name_ = std::move(name);
  file->text_ = std::move(text);
  if (file->text_.size() > kMostBytes)
    return invalid_usage("{}: {} bytes; a topology file has at most {}", file->name_, file->text_.size(), kMostBytes);
  // Of entities pugixml knows the five of XML and numbered characters; a DOCTYPE is skipped.
  const auto parsed =
      file->document_.load_buffer(file->text_.data(), file->text_.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed) return file->error_at(parsed.offset, fmt::format("not XML: {}", parsed.description()));
  TUTTI_TRY(file->check_size());
  return file;
}

Status XmlFile::check_size() const {
  size_t elements = 0, depth = 0;
  pugi::xml_node node = root();
  while (node) {
    if (++elements > kMostElements)
      return error_at(node.offset_debug(), fmt::format("more than {} elements", kMostElements));
    if (node.first_child()) {
      node = node.first_child();
      if (++depth > kMostDepth)
        return error_at(node.offset_debug(), fmt::format("elements more than {} deep", kMostDepth));
      continue;
    }
    while (node && !node.next_sibling() && depth > 0) {
      node = node.parent();
      --depth;
    }
    if (depth == 0) break;
    node = node.next_sibling();
  }
  return {};
}

size_t XmlFile::line_of(ptrdiff_t offset) const {
  const auto end = text_.begin() + std::clamp<ptrdiff_t>(offset, 0, static_cast<ptrdiff_t>(text_.size()));
  return static_cast<size_t>(std::count(text_.begin(), end, '\n')) + 1;
}

Status XmlFile::error_at(ptrdiff_t offset, std::string_view message) const {
  return invalid_usage("{}:{}: {}", name_, line_of(offset), message);
}

void XmlFile::refuse(pugi::xml_node node, std::string_view message) {
  if (status_.ok()) status_ = error_at(node.offset_debug(), message);
}

uint64_t XmlFile::number(pugi::xml_node node, const char* name, uint64_t most, uint64_t otherwise) {
  std::string_view value = node.attribute(name).value();
  if (value.empty()) return otherwise;
  const std::string_view given = value;
  const bool hexadecimal = value.starts_with("0x") || value.starts_with("0X");
  if (hexadecimal) value.remove_prefix(2);
  uint64_t result = 0;
  const auto [last, error] = std::from_chars(value.data(), value.data() + value.size(), result, hexadecimal ? 16 : 10);
  if (error == std::errc() && last == value.data() + value.size() && result <= most) return result;
  refuse(node,
         fmt::format("<{}> has {}=\"{:.40}\"; it may be a whole number from 0 to {}", node.name(), name, given, most));
  return otherwise;
}

double XmlFile::decimal(pugi::xml_node node, const char* name, double most, double otherwise) {
  const std::string_view value = node.attribute(name).value();
  if (value.empty() || value == "Unknown" || value == "Unknown speed") return otherwise;
  double result = 0;
  const auto [last, error] = std::from_chars(value.data(), value.data() + value.size(), result);
  const bool ends = last == value.data() + value.size() || *last == ' ';
  if (error == std::errc() && ends && std::isfinite(result) && result >= 0 && result <= most) return result;
  refuse(node, fmt::format("<{}> has {}=\"{:.40}\"; it may be a number from 0 to {}", node.name(), name, value, most));
  return otherwise;
}

std::string XmlFile::text(pugi::xml_node node, const char* name) {
  const std::string value = node.attribute(name).value();
  if (value.size() <= kMostTextBytes) return value;
  refuse(node,
         fmt::format("<{}> has a {} of {} bytes; at most {} are allowed", node.name(), name, value.size(), kMostTextBytes));
  return {};
}

Result<std::string> read_whole_file(const std::string& path, size_t most) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return system_error(fmt::format("open {}", path), errno).within("topology file");
  std::string text;
  for (char buffer[65536];;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(fmt::format("read {}", path), errno).within("topology file");
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > most) return invalid_usage("{}: more than {} bytes; no topology file is that large", path, most);
  }
}

}  // namespace tutti
