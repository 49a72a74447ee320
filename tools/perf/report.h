// Report: what a run has to say, as values, and as the two forms it takes: nccl-tests' table and its JSON.
//
// Scripts read both, so columns, comment lines and keys keep nccl-tests' shape; Tutti's own are added, never mixed in.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "perf/options.h"

namespace tutti::perf {

struct Device {
  int rank = 0, group = 0, pid = 0;
  std::string host;
  int number = -1;       // -1: host memory
  std::string location;  // "host"
  std::string model;     // the processor's name
};

// tuttiChoice_t as values.
struct Choice {
  std::string algorithm = "none", protocol = "none";
  std::vector<std::string> transports;
  bool algorithm_forced = false, transport_forced = false;
  bool operator==(const Choice&) const = default;
};
// The choice for sizes first_bytes .. last_bytes.
struct ChoiceRange {
  size_t first_bytes = 0, last_bytes = 0;
  Choice choice;
};

struct Measurement {
  double time_us = 0, algbw = 0, busbw = 0;  // GB/s, 1e9 bytes
  std::optional<uint64_t> wrong;             // none: not checked
};

struct ResultRow {
  size_t bytes = 0, count = 0;
  tuttiDataType_t type = tuttiFloat32;
  Operation operation = Operation::none;
  int root = -1;
  Measurement out_of_place;
  std::optional<Measurement> in_place;  // none: the collective has no in-place form
  int iterations = 0;
  Choice choice;
};

struct Header {
  std::string program, title;
  int header_version = TUTTI_VERSION_CODE, library_version = TUTTI_VERSION_CODE;
  int processes = 1;
  Options options;
  std::vector<Device> devices;
  std::vector<ChoiceRange> choices;
  tuttiDataType_t choices_type = tuttiFloat32;
};

struct Footer {
  std::string program;
  uint64_t wrong = 0;
  double average_busbw = 0;
  std::optional<double> least_busbw;  // NCCL_TESTS_MIN_BW: less than 0.9 of it fails the run
  bool bandwidth_okay() const { return !least_busbw || average_busbw >= 0.9 * *least_busbw; }
};

// ---- the table: whole lines, each ended by a newline ----------------------------------------------------------------
std::string header_text(const Header& header);
std::string row_text(const ResultRow& row);
std::string footer_text(const Footer& footer);
std::string version_text(int code);  // "0.1.0"
// A number in `width` characters, with as many of two decimals as fit.
std::string number_text(double value, int width);

// ---- JSON, version 3 of nccl-tests' format --------------------------------------------------------------------------
struct RunFrame {
  std::vector<std::string> arguments, environment;
  std::string start_time, end_time;
  std::vector<std::string> errors;
};
nlohmann::ordered_json json_report(const RunFrame& frame, const Header& header, const std::vector<ResultRow>& rows,
                                   const Footer& footer);
std::string json_text(const nlohmann::ordered_json& report);
std::string now_text();  // "2026-01-31 12:00:00", local time

}  // namespace tutti::perf
