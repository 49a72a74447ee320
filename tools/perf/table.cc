#include <fmt/format.h>

#include "perf/join.h"
#include "perf/report.h"

namespace tutti::perf {
namespace {

std::string measurement_text(const Measurement& m) {
  const std::string wrong = m.wrong ? fmt::format("{:>6g}", static_cast<double>(*m.wrong)) : "   N/A";
  return fmt::format("  {}  {}  {}  {}", number_text(m.time_us, 7), number_text(m.algbw, 6), number_text(m.busbw, 6),
                     wrong);
}

std::string options_text(const Options& o) {
  std::string text = fmt::format(
      "# nThread {} nGpus 0 minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg iters: {} validation: "
      "{} "
      "graph: 0\n",
      o.threads, o.min_bytes, o.max_bytes, o.step_factor > 1 ? static_cast<size_t>(o.step_factor) : o.step_bytes,
      o.step_factor > 1 ? "factor" : "bytes", o.warmup_iterations, o.iterations, o.aggregated, o.checks);
  if (o.blocking == 1) text += "# Blocking: every call is waited for, then all ranks meet in a barrier\n";
  if (o.blocking > 1) text += "# Blocking: every call is waited for\n";
  return text;
}

std::string choice_text(const ChoiceRange& range, tuttiDataType_t type) {
  const Choice& c = range.choice;
  const auto how = [](bool forced) { return forced ? "forced" : "chosen"; };
  return fmt::format("# Choice: {} .. {} B of {}: algorithm {} ({}), protocol {}, transport {} ({})\n",
                     range.first_bytes, range.last_bytes, type_name(type), c.algorithm, how(c.algorithm_forced),
                     c.protocol, c.transports.empty() ? "none" : joined(c.transports, ","), how(c.transport_forced));
}

}  // namespace

std::string version_text(int code) { return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100); }

std::string number_text(double value, int width) {
  // The digits before the point, the point and two decimals, as far as there is room.
  for (int decimals = 2; decimals >= 0; --decimals) {
    std::string text = fmt::format("{:>{}.{}f}", value, width, decimals);
    if (text.size() <= static_cast<size_t>(width)) return text;
  }
  return fmt::format("{:>{}.{}e}", value, width, width >= 7 ? 1 : 0);
}

std::string header_text(const Header& header) {
  std::string text = fmt::format("# tutti-perf version {} tutti-headers={} tutti-library={}\n",
                                 version_text(header.header_version), header.header_version, header.library_version);
  text += fmt::format("# Collective test starting: {}\n", header.program);
  text += options_text(header.options);
  text += "#\n# Using devices\n";
  for (const Device& d : header.devices)
    text += fmt::format("#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [{}] {}\n", d.rank, d.group, d.pid,
                        d.host, d.number, d.location, d.model);
  for (const ChoiceRange& range : header.choices) text += choice_text(range, header.choices_type);
  const char* time = header.options.cpu_time ? "cputime" : "time";
  text += "#\n";
  text += fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place                       in-place\n",
                      "", "", "", "", "");
  text += fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "size", "count", "type", "redop", "root");
  for (int i = 0; i < 2; ++i) text += fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", time, "algbw", "busbw", "#wrong");
  text += fmt::format("\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "(B)", "(elements)", "", "", "");
  for (int i = 0; i < 2; ++i) text += fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  return text + "\n";
}

std::string row_text(const ResultRow& row) {
  std::string text = fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", row.bytes, row.count, type_name(row.type),
                                 operation_name(row.operation), row.root);
  text += measurement_text(row.out_of_place);
  text += row.in_place ? measurement_text(*row.in_place)
                       : fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A");
  return text + "\n";
}

std::string footer_text(const Footer& footer) {
  const char* bandwidth = !footer.least_busbw ? "" : footer.bandwidth_okay() ? "OK" : "FAILED";
  return fmt::format("# {:<20} : {} {}\n# {:<20} : {:g} {}\n#\n# Collective test concluded: {}\n",
                     "Out of bounds values", footer.wrong, footer.wrong == 0 ? "OK" : "FAILED", "Avg bus bandwidth",
                     footer.average_busbw, bandwidth, footer.program);
}

}  // namespace tutti::perf
