// The parts of a Bench that say what runs where: the table of ranks and the choices of the library.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <span>

#include "base/host.h"
#include "perf/bench.h"

namespace tutti::perf {
namespace {

// What a rank tells of itself. Fixed size, so that a sum over ranks whose other slots are zero gathers all of them.
struct RankRecord {
  int32_t pid, device;
  char host[64], model[64];
};

void copy_text(const std::string& text, std::span<char> to) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), to.size() - 1));
}

std::string processor_model() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "processor";
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (comma > 0) words.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return words;
}

}  // namespace

Status Bench::describe_ranks() {
  std::vector<RankRecord> ranks(static_cast<size_t>(member_.nranks));
  RankRecord& mine = ranks[static_cast<size_t>(member_.rank)];
  mine.pid = ::getpid();
  TUTTI_TRY(library_status(tuttiCommDevice(member_.comm, &mine.device), "tuttiCommDevice", member_.comm));
  copy_text(host_name(), mine.host);
  copy_text(processor_model(), mine.model);
  TUTTI_TRY(all_reduce_memory(member_, ranks.data(), ranks.size() * sizeof(RankRecord), tuttiUint8, 1, tuttiSum));
  if (!speaks()) return {};
  Header& header = record_.header;
  header.program = collective_.program;
  header.title = collective_.title;
  header.processes = member_.processes;
  header.options = options_;
  TUTTI_TRY(library_status(tuttiGetVersion(&header.library_version), "tuttiGetVersion"));
  for (int r = 0; r < member_.nranks; ++r) {
    const RankRecord& rank = ranks[static_cast<size_t>(r)];
    header.devices.push_back({r, 0, rank.pid, rank.host, rank.device, rank.device < 0 ? "host" : "device", rank.model});
  }
  return {};
}

Choice Bench::choice_of(tuttiDataType_t type, size_t bytes) const {
  tuttiChoice_t found = {};
  found.size = sizeof(found);
  Choice choice;
  const tuttiResult_t result =
      tuttiCommQueryChoice(member_.comm, collective_.name, count_of(type, bytes), type, &found);
  if (result != tuttiSuccess) return choice;
  if (found.algorithm != nullptr) choice.algorithm = found.algorithm;
  if (found.protocol != nullptr) choice.protocol = found.protocol;
  choice.transports = split(found.transport);
  choice.algorithm_forced = found.algorithm_forced != 0;
  choice.transport_forced = found.transport_forced != 0;
  return choice;
}

void Bench::describe_choices() {
  Header& header = record_.header;
  header.choices_type = options_.types[0];
  for (const size_t bytes : options_.sizes()) {
    Choice choice = choice_of(header.choices_type, bytes);
    if (header.choices.empty() || header.choices.back().choice != choice) {
      header.choices.push_back({bytes, bytes, std::move(choice)});
    } else {
      header.choices.back().last_bytes = bytes;
    }
  }
}

}  // namespace tutti::perf
