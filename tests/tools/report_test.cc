// What scripts parse: columns, comment lines and JSON keys.
#include "perf/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

namespace tutti::perf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

ResultRow a_row() {
  ResultRow row;
  row.bytes = 1 << 20;
  row.count = 262144;
  row.operation = Operation::sum;
  row.out_of_place = {123.456, 8.49, 12.739, 0};
  row.in_place = Measurement{1.25, 838.86, 1258.3, 7};
  row.iterations = 20;
  row.choice = {"ring", "simple", {"shm", "tcp"}, true, false};
  return row;
}

Header a_header() {
  Header header;
  header.program = "allreduce_perf";
  header.title = "AllReduce";
  header.options.min_bytes = 8;
  header.options.step_factor = 2;
  header.devices = {{0, 0, 4711, "node", -1, "host", "Some CPU"}, {1, 0, 4712, "node", -1, "host", "Some CPU"}};
  header.choices = {{8, 65536, {"tree", "simple", {"shm"}, false, true}}, {131072, 33554432, a_row().choice}};
  return header;
}

TEST(Table, RowHasThirteenColumns) {
  EXPECT_THAT(words_of(row_text(a_row())), ElementsAre("1048576", "262144", "float", "sum", "-1", "123.46", "8.49",
                                                       "12.74", "0", "1.25", "838.86", "1258.3", "7"));
  EXPECT_EQ(
      row_text(a_row()),
      "     1048576        262144     float     sum      -1   123.46    8.49   12.74       0     1.25  838.86  1258.3"
      "       7\n");
}

TEST(Table, RowKeepsItsColumnsWhenSomeAreMissing) {
  ResultRow row = a_row();
  row.out_of_place.wrong.reset();
  row.in_place.reset();
  row.operation = Operation::none;
  row.root = 3;
  EXPECT_THAT(words_of(row_text(row)), ElementsAre("1048576", "262144", "float", "none", "3", "123.46", "8.49", "12.74",
                                                   "N/A", "N/A", "N/A", "N/A", "N/A"));
}

TEST(Table, NumbersKeepTheirWidth) {
  EXPECT_EQ(number_text(1.234, 7), "   1.23");
  EXPECT_EQ(number_text(12345.6, 7), "12345.6");
  EXPECT_EQ(number_text(1234567.8, 7), "1234568");
  EXPECT_EQ(number_text(123456789.0, 7), "1.2e+08");
}

TEST(Table, HeaderLinesAreComments) {
  const std::string text = header_text(a_header());
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) EXPECT_EQ(line[0], '#') << line;
  EXPECT_THAT(text,
              HasSubstr("# nThread 1 nGpus 0 minBytes 8 maxBytes 33554432 step: 2(factor) warmup iters: 1 iters: 20 "
                        "agg iters: 1 validation: 1 graph: 0\n"));
  EXPECT_THAT(text,
              HasSubstr("# Using devices\n#  Rank  0 Group  0 Pid   4711 on       node device -1 [host] Some CPU\n"));
  EXPECT_THAT(text,
              HasSubstr("# Choice: 8 .. 65536 B of float: algorithm tree (chosen), protocol simple, transport shm "
                        "(forced)\n"));
  EXPECT_THAT(text, HasSubstr("algorithm ring (forced), protocol simple, transport shm,tcp (chosen)\n"));
}

TEST(Table, HeadingsStandOverTheirColumns) {
  const std::string text = header_text(a_header());
  std::istringstream stream(text);
  std::string names, row = row_text(a_row());
  for (std::string line; std::getline(stream, line);)
    if (line.find("busbw") != std::string::npos) names = line;
  EXPECT_THAT(words_of(names), ElementsAre("#", "size", "count", "type", "redop", "root", "time", "algbw", "busbw",
                                           "#wrong", "time", "algbw", "busbw", "#wrong"));
  EXPECT_EQ(names.size() + 1, row.size());
  // Every word of the row ends where one of the headings ends.
  for (size_t i = 1; i < row.size(); ++i) {
    const bool row_word_ends = row[i - 1] != ' ' && (row[i] == ' ' || row[i] == '\n');
    const bool name_ends = names[i - 1] != ' ' && (i == names.size() || names[i] == ' ');
    const bool in_comment_sign = i <= 2;
    EXPECT_TRUE(in_comment_sign || row_word_ends == name_ends) << i;
  }
}

TEST(Table, CpuTimeIsCalledSo) {
  Header header = a_header();
  header.options.cpu_time = true;
  EXPECT_THAT(header_text(header), HasSubstr("cputime"));
}

TEST(Table, Footer) {
  EXPECT_EQ(footer_text({"allreduce_perf", 0, 1.5, {}}),
            "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.5 \n#\n# Collective test concluded: "
            "allreduce_perf\n");
  EXPECT_THAT(footer_text({"x", 3, 1.5, 2.0}),
              HasSubstr("# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 1.5 FAILED\n"));
  EXPECT_THAT(footer_text({"x", 0, 1.9, 2.0}), HasSubstr("1.9 OK"));
}

TEST(Json, HasTheKeysOfNcclTests) {
  const nlohmann::ordered_json json = json_report(
      {{"allreduce_perf", "-b", "8"}, {"TUTTI_ALGO=ring"}, "2026-01-31 12:00:00", "2026-01-31 12:00:01", {}},
      a_header(), {a_row()}, {"allreduce_perf", 7, 635.5, {}});
  for (const char* key : {"version", "start_time", "end_time", "args", "env", "nccl_version", "config", "results",
                          "out_of_bounds", "average_bus_bandwidth", "errors"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json["version"], 3);
  EXPECT_EQ(json["args"][2], "8");
  const auto& config = json["config"];
  for (const char* key :
       {"nthreads", "ngpus", "minimum_bytes", "maximum_bytes", "step_factor", "warmup_iters", "iterations",
        "aggregated_iterations", "validation", "graph", "blocking_collectives", "parallel_init", "devices"})
    EXPECT_TRUE(config.contains(key)) << key;
  EXPECT_EQ(config["parallel_init"], "true");
  EXPECT_EQ(config["devices"][1]["pid"], 4712);
  for (const char* key : {"rank", "group", "pid", "hostname", "device", "device_hex", "device_info"})
    EXPECT_TRUE(config["devices"][0].contains(key)) << key;
  const auto& row = json["results"][0];
  EXPECT_EQ(row["size"], 1 << 20);
  EXPECT_EQ(row["count"], 262144);
  EXPECT_EQ(row["type"], "float");
  EXPECT_EQ(row["redop"], "sum");
  EXPECT_EQ(row["root"], "-1");
  EXPECT_EQ(row["out_of_place"]["nwrong"], 0);
  EXPECT_EQ(row["out_of_place"]["time"], 123.456);
  EXPECT_EQ(row["in_place"]["alg_bw"], 838.86);
  EXPECT_EQ(row["in_place"]["bus_bw"], 1258.3);
  EXPECT_EQ(row["actual_iterations"], 20);
  EXPECT_TRUE(row.contains("experiment_name"));
  EXPECT_EQ(row["algorithm"], "ring");
  EXPECT_EQ(row["protocol"], "simple");
  EXPECT_EQ(row["transport"], (std::vector<std::string>{"shm", "tcp"}));
  EXPECT_EQ(json["out_of_bounds"]["count"], 7);
  EXPECT_EQ(json["out_of_bounds"]["okay"], "false");
  EXPECT_EQ(json["average_bus_bandwidth"]["okay"], "unchecked");
}

TEST(Json, MissingNumbersAreNull) {
  ResultRow row = a_row();
  row.out_of_place.wrong.reset();
  row.in_place.reset();
  Header header = a_header();
  header.options.cpu_time = true;
  header.options.step_factor = 1;
  const nlohmann::ordered_json json = json_report({}, header, {row}, {"x", 0, 1, 1.0});
  EXPECT_TRUE(json["results"][0]["out_of_place"]["nwrong"].is_null());
  EXPECT_TRUE(json["results"][0]["out_of_place"].contains("cpu_time"));
  for (const char* key : {"cpu_time", "alg_bw", "bus_bw", "nwrong"})
    EXPECT_TRUE(json["results"][0]["in_place"].at(key).is_null()) << key;
  EXPECT_TRUE(json["config"].contains("step_bytes"));
  EXPECT_EQ(json["average_bus_bandwidth"]["okay"], "true");
}

TEST(Json, WhatIsNoUtf8IsReplaced) {
  const std::string text = json_text(json_report({{"\xff"}, {}, "", "", {}}, a_header(), {}, {}));
  EXPECT_EQ(nlohmann::json::parse(text)["config"]["iterations"], 20);
}

}  // namespace
}  // namespace tutti::perf
