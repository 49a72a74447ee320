#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/config.h"
#include "base/fd.h"
#include "tune/parameters.h"

namespace tutti {
namespace {

using nlohmann::json;

constexpr std::string_view kVersionMember = "tutti_tuning", kParametersMember = "parameters";
constexpr int kVersion = 1;
constexpr size_t kMostBytes = 1 << 20;

Status read_field(Parameters& parameters, const std::string& name, const json& value) {
  for (const ParameterField& field : parameter_fields()) {
    if (field.name != name) continue;
    const double number = value.is_number() ? value.get<double>() : -1;
    if (!(number >= field.least && number <= field.most))
      return invalid_usage("{} is {}; it is a number from {} to {}", name, value.dump(), field.least, field.most);
    // As the file would show it: ranks that compare hashes have equal values, too.
    field.of(parameters) = std::round(number * 1000) / 1000 * field.unit_s;
    return {};
  }
  std::vector<std::string_view> names;
  for (const ParameterField& field : parameter_fields()) names.push_back(field.name);
  const std::string_view near = nearest_name(name, names);
  if (!near.empty()) return invalid_usage("there is no parameter {}; did you mean {}?", name, near);
  return invalid_usage("there is no parameter {}; there are {}", name, fmt::join(names, ", "));
}

Result<Parameters> parse(std::string_view text, const Parameters& otherwise) {
  json file;
  try {
    file = json::parse(text);
  } catch (const json::parse_error& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const std::string_view what = error.what();
    return invalid_usage("it is not JSON: {}", what.substr(std::min(what.find("] ") + 2, what.size())));
  }
  if (!file.is_object() || !file.contains(kVersionMember))
    return invalid_usage("it is no tuning file: it has no \"{}\"; write one with tutti tune -o FILE", kVersionMember);
  if (file[kVersionMember] != kVersion)
    return invalid_usage("\"{}\" is {}, and this library reads version {}; write the file anew with tutti tune -o FILE",
                         kVersionMember, file[kVersionMember].dump(), kVersion);
  const auto values = file.find(kParametersMember);
  if (values == file.end() || !values->is_object()) return invalid_usage("it has no object \"{}\"", kParametersMember);
  Parameters parameters = otherwise;
  for (const auto& [name, value] : values->items()) TUTTI_TRY(read_field(parameters, name, value));
  return parameters;
}

Result<std::string> read_text(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return system_error("open", errno);
  std::string text;
  char block[4096];
  for (;;) {
    const ssize_t got = ::read(file.get(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("read", errno);
    if (got == 0) return text;
    text.append(block, static_cast<size_t>(got));
    if (text.size() > kMostBytes) return invalid_usage("it has more than {} bytes", kMostBytes);
  }
}

}  // namespace

Result<Parameters> parse_parameters(std::string_view text, const Parameters& otherwise) {
  return parse(text, otherwise);
}

Result<Parameters> read_parameters(const std::string& path, const Parameters& otherwise) {
  Result<std::string> text = read_text(path);
  // Whatever the system call said, it is the user's file that is to be mended.
  if (!text.ok()) return invalid_usage("TUTTI_TUNING_FILE={}: {}", path, text.status().message());
  Result<Parameters> parameters = parse(*text, otherwise);
  if (!parameters.ok()) return parameters.status().within(fmt::format("TUTTI_TUNING_FILE={}", path));
  return parameters;
}

std::string to_json(const Parameters& parameters, std::span<const std::pair<std::string, std::string>> notes) {
  nlohmann::ordered_json file;
  file[std::string(kVersionMember)] = kVersion;
  for (const auto& [name, text] : notes) file[name] = text;
  nlohmann::ordered_json& values = file[std::string(kParametersMember)];
  for (const ParameterField& field : parameter_fields())
    values[std::string(field.name)] = std::round(field.in_file_unit(parameters) * 1000) / 1000;
  return file.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace tutti
