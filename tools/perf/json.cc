#include <ctime>

#include "perf/report.h"

namespace tutti::perf {
namespace {

using nlohmann::ordered_json;

constexpr int kFormatVersion = 3;

// nccl-tests writes truth as text; scripts compare with that.
std::string truth(bool value) { return value ? "true" : "false"; }

ordered_json json_of(const Device& d) {
  return {{"rank", d.rank},     {"group", d.group},         {"pid", d.pid},          {"hostname", d.host},
          {"device", d.number}, {"device_hex", d.location}, {"device_info", d.model}};
}

// Null where there is no number: what was not measured keeps its keys.
ordered_json json_of(const std::optional<Measurement>& m, bool cpu_time) {
  ordered_json json;
  json[cpu_time ? "cpu_time" : "time"] = m ? ordered_json(m->time_us) : nullptr;
  json["alg_bw"] = m ? ordered_json(m->algbw) : nullptr;
  json["bus_bw"] = m ? ordered_json(m->busbw) : nullptr;
  json["nwrong"] = m && m->wrong ? ordered_json(*m->wrong) : nullptr;
  return json;
}

ordered_json config_of(const Header& header) {
  const Options& o = header.options;
  ordered_json config = {
      {"nthreads", o.threads}, {"ngpus", 0}, {"minimum_bytes", o.min_bytes}, {"maximum_bytes", o.max_bytes}};
  if (o.step_factor > 1) {
    config["step_factor"] = o.step_factor;
  } else {
    config["step_bytes"] = o.step_bytes;
  }
  config["warmup_iters"] = o.warmup_iterations;
  config["iterations"] = o.iterations;
  config["aggregated_iterations"] = o.aggregated;
  config["validation"] = o.checks;
  config["graph"] = 0;
  config["blocking_collectives"] = truth(o.blocking != 0);
  config["parallel_init"] = truth(o.parallel_init);
  config["nprocesses"] = header.processes;
  config["devices"] = ordered_json::array();
  for (const Device& device : header.devices) config["devices"].push_back(json_of(device));
  return config;
}

ordered_json json_of(const ResultRow& row, const Header& header) {
  ordered_json json = {{"size", row.bytes},
                       {"count", row.count},
                       {"type", type_name(row.type)},
                       {"redop", operation_name(row.operation)},
                       {"root", std::to_string(row.root)}};
  json["out_of_place"] = json_of(row.out_of_place, header.options.cpu_time);
  json["in_place"] = json_of(row.in_place, header.options.cpu_time);
  json["actual_iterations"] = row.iterations;
  json["experiment_name"] = header.program;
  json["algorithm"] = row.choice.algorithm;
  json["algorithm_forced"] = truth(row.choice.algorithm_forced);
  json["protocol"] = row.choice.protocol;
  json["transport"] = row.choice.transports;
  json["transport_forced"] = truth(row.choice.transport_forced);
  return json;
}

}  // namespace

ordered_json json_report(const RunFrame& frame, const Header& header, const std::vector<ResultRow>& rows,
                         const Footer& footer) {
  ordered_json json;
  json["version"] = kFormatVersion;
  json["start_time"] = frame.start_time;
  json["args"] = frame.arguments;
  json["env"] = frame.environment;
  json["nccl_version"] = header.library_version;
  json["tutti_version"] = header.library_version;
  json["collective"] = header.title;
  json["config"] = config_of(header);
  json["results"] = ordered_json::array();
  for (const ResultRow& row : rows) json["results"].push_back(json_of(row, header));
  json["out_of_bounds"] = {{"count", footer.wrong}, {"okay", truth(footer.wrong == 0)}};
  json["average_bus_bandwidth"] = {{"bandwidth", footer.average_busbw},
                                   {"okay", footer.least_busbw ? truth(footer.bandwidth_okay()) : "unchecked"}};
  json["errors"] = frame.errors;
  json["end_time"] = frame.end_time;
  return json;
}

std::string json_text(const ordered_json& report) {
  // Arguments may hold any bytes; what is no UTF-8 is replaced rather than failing the report.
  return report.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[32];
  return std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts) > 0 ? text : "";
}

}  // namespace tutti::perf
