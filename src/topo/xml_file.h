// XmlFile: an XML text with limits, and errors that name file and line. For readers of topology files, which come from
// strangers: no external entities, no document type, bounded size, depth and number of elements.
//
// Attributes are asked for by type and range. The first that is wrong is kept in status() and the rest go on with
// defaults, so that a reader asks without looking and checks once.
#pragma once

#include <memory>
#include <pugixml.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti {

class XmlFile {
 public:
  static constexpr size_t kMostBytes = size_t{4} << 20;
  static constexpr size_t kMostElements = 100'000;
  static constexpr size_t kMostDepth = 64;
  static constexpr size_t kMostTextBytes = 2048;  // a mask of 4096 cores has 1152

  // `name` is what errors call the file.
  static Result<std::unique_ptr<XmlFile>> parse(std::string name, std::string text);

  pugi::xml_node root() const { return document_.document_element(); }
  const Status& status() const { return status_; }

  // An attribute as an unsigned number, decimal or 0x...; `otherwise` where it is missing or empty.
  uint64_t number(pugi::xml_node node, const char* name, uint64_t most, uint64_t otherwise = 0);
  // A finite number from 0 to `most`; words behind it ("16 GT/s PCIe") are ignored.
  double decimal(pugi::xml_node node, const char* name, double most, double otherwise = 0);
  // At most kMostTextBytes.
  std::string text(pugi::xml_node node, const char* name);
  // Keeps the first: "FILE:LINE: message".
  void refuse(pugi::xml_node node, std::string_view message);

 private:
  Status check_size() const;
  size_t line_of(ptrdiff_t offset) const;
  Status error_at(ptrdiff_t offset, std::string_view message) const;

  std::string name_, text_;
  pugi::xml_document document_;
  Status status_;
};

// The whole file, at most `most` bytes. Not only regular files: a pipe is read to its end.
Result<std::string> read_whole_file(const std::string& path, size_t most);

}  // namespace tutti
