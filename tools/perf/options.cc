#include "perf/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "perf/join.h"

namespace tutti::perf {
namespace {

constexpr int kMany = 1 << 30;
constexpr int kMostThreads = 1024, kMostAggregated = 1 << 16, kMostSeconds = 1 << 20;
constexpr size_t kMostSizes = 1 << 20;

// What the command line says before it is interpreted.
struct Words {
  std::string min_bytes = "32M", max_bytes = "32M", step_bytes = "1M";
  std::string operation = "sum", type = "float", root = "0";
  int gpus = 0, graphs = 0, null_stream = 0, parallel_init = 1, cpu_time = 0, average = 1, local_register = 0;
};

std::vector<Operation> all_operations() {
  std::vector<Operation> all;
  for (int i = 0; i < kOperationCount; ++i) all.push_back(static_cast<Operation>(i));
  return all;
}

std::vector<tuttiDataType_t> all_types() {
  std::vector<tuttiDataType_t> all;
  for (int i = 0; i < tuttiNumTypes; ++i) all.push_back(static_cast<tuttiDataType_t>(i));
  return all;
}

std::string names_of_operations() {
  std::vector<std::string_view> names;
  for (const Operation operation : all_operations()) names.push_back(operation_name(operation));
  return joined(names, " ");
}

std::string names_of_types() {
  std::vector<std::string_view> names;
  for (const tuttiDataType_t type : all_types()) names.push_back(type_name(type));
  return joined(names, " ");
}

// A word, with its default shown and nothing of CLI11's own remarks on types.
void word(CLI::App& app, const char* names, std::string& value, const char* form, const std::string& help) {
  app.add_option(names, value, help)->option_text(fmt::format("{}={}", form, value));
}

void number(CLI::App& app, const char* names, int& value, int least, int most, const char* form, const char* help) {
  app.add_option(names, value, help)->check(CLI::Range(least, most))->option_text(fmt::format("{}={}", form, value));
}

void declare_sizes_and_counts(CLI::App& app, Words& words, Options& o) {
  word(app, "-b,--minbytes", words.min_bytes, "SIZE", "smallest size, in bytes or with K, M or G");
  word(app, "-e,--maxbytes", words.max_bytes, "SIZE", "largest size");
  word(app, "-i,--stepbytes", words.step_bytes, "SIZE", "how much is added from one size to the next");
  number(app, "-f,--stepfactor", o.step_factor, 1, kMany, "INT", "multiply instead, if this is 2 or more");
  number(app, "-n,--iters", o.iterations, 1, kMany, "INT", "timed iterations of a size");
  number(app, "-w,--warmup_iters", o.warmup_iterations, 0, kMany, "INT",
         "iterations before, of the least and largest size");
  number(app, "-m,--agg_iters", o.aggregated, 1, kMostAggregated, "INT", "calls put into one group in each iteration");
  number(app, "-N,--run_cycles", o.cycles, 0, kMany, "INT", "times to go through all sizes; 0: until interrupted");
  number(app, "-c,--check", o.checks, 0, kMany, "INT", "times the result of a size is checked, after the timing");
}

void declare_what(CLI::App& app, Words& words, bool reduces, bool rooted) {
  word(app, "-o,--op", words.operation, "OP",
       reduces ? names_of_operations() + ", or all" : "accepted; this collective reduces nothing");
  word(app, "-d,--datatype", words.type, "TYPE", names_of_types() + ", or all");
  word(app, "-r,--root", words.root, "RANK",
       rooted ? "the root, or all (also -1)" : "accepted; this collective has no root");
}

void declare_how(CLI::App& app, Words& words, Options& o) {
  number(app, "-t,--nthreads", o.threads, 1, kMostThreads, "INT", "ranks of this process, each a thread");
  number(app, "-g,--ngpus", words.gpus, 0, kMany, "INT", "GPUs of each thread; 0: buffers in host memory");
  number(app, "-p,--parallel_init", words.parallel_init, 0, 1, "0|1",
         "1: threads join by themselves; 0: one joins all");
  number(app, "-z,--blocking", o.blocking, 0, 3, "0..3",
         "0: calls are queued on a stream; 1: each is waited for, then a barrier; 2, 3: each is waited for");
  number(app, "-y,--stream_null", words.null_stream, 0, 1, "0|1", "1: calls run to completion in the caller, as -z 2");
  number(app, "-T,--timeout", o.timeout_seconds, 0, kMostSeconds, "SECONDS",
         "time without progress that is an error; 0: TUTTI_TIMEOUT");
  number(app, "-G,--cudagraph", words.graphs, 0, kMany, "INT", "CUDA graph launches; this release has none");
  number(app, "-C,--report_cputime", words.cpu_time, 0, 1, "0|1", "1: the time to issue a call, not to complete it");
  number(app, "-a,--average", words.average, 0, 3, "0..3",
         "times of 0: rank 0; over ranks 1: average, 2: least, 3: most");
  number(app, "-R,--local_register", words.local_register, 0, 2, "0..2",
         "1, 2: buffers from tuttiMemAlloc, registered");
  app.add_option("-J,--output_file", o.json_file, "report as JSON; FILE.0, FILE.1, ... when FILE exists")
      ->option_text("FILE");
}

Status interpret_sizes(const Words& words, Options& o) {
  const auto size = [](std::string_view option, const std::string& text, size_t& value) -> Status {
    Result<size_t> parsed = parse_size(text);
    if (!parsed.ok()) return parsed.status().within(option);
    value = *parsed;
    return {};
  };
  TUTTI_TRY(size("--minbytes", words.min_bytes, o.min_bytes));
  TUTTI_TRY(size("--maxbytes", words.max_bytes, o.max_bytes));
  TUTTI_TRY(size("--stepbytes", words.step_bytes, o.step_bytes));
  if (o.min_bytes > o.max_bytes)
    return invalid_argument(
        "--minbytes {} is more than --maxbytes {} (which is 32M unless given); give both with -b and -e",
        words.min_bytes, words.max_bytes);
  if (o.step_factor == 1 && o.step_bytes == 0 && o.min_bytes < o.max_bytes)
    return invalid_argument("--stepbytes 0 never reaches --maxbytes; give a step, or a factor with -f");
  if (o.step_factor > 1 && o.min_bytes == 0)
    return invalid_argument("--minbytes 0 times a factor stays 0; begin with -b 8, or add with -i");
  if (o.step_factor == 1 && o.step_bytes > 0 && (o.max_bytes - o.min_bytes) / o.step_bytes >= kMostSizes)
    return invalid_argument("from {} to {} by {} are {} sizes, at most {} are run; multiply with -f 2 instead",
                            words.min_bytes, words.max_bytes, words.step_bytes,
                            (o.max_bytes - o.min_bytes) / o.step_bytes + 1, kMostSizes);
  return {};
}

Status interpret_what(const Words& words, Options& o) {
  if (words.operation == "all") {
    o.operations = all_operations();
  } else if (const auto operation = parse_operation(words.operation)) {
    o.operations = {*operation};
  } else {
    return invalid_argument("--op '{}' is none of: {} all", words.operation, names_of_operations());
  }
  if (words.type == "all") {
    o.types = all_types();
  } else if (const auto type = parse_type(words.type)) {
    o.types = {*type};
  } else {
    return invalid_argument("--datatype '{}' is none of: {} all", words.type, names_of_types());
  }
  o.all_roots = words.root == "all" || words.root == "-1";
  if (o.all_roots) return {};
  char* end = nullptr;
  const long root = std::strtol(words.root.c_str(), &end, 10);
  if (end == words.root.c_str() || *end != '\0' || root < 0 || root > INT32_MAX)
    return invalid_argument("--root '{}' is neither a rank nor all", words.root);
  o.roots = {static_cast<int>(root)};
  return {};
}

Status interpret(const Words& words, Options& o) {
  TUTTI_TRY(interpret_sizes(words, o));
  TUTTI_TRY(interpret_what(words, o));
  if (words.gpus > 1)
    return invalid_argument("--ngpus {}: a thread has one rank, with one GPU; give -g 1, and -t for more", words.gpus);
  o.on_gpu = words.gpus == 1;
  if (words.graphs != 0)
    return invalid_argument("--cudagraph {}: this build has no CUDA graphs; leave -G out, or give -G 0", words.graphs);
  if (words.null_stream == 1 && o.blocking == 0) o.blocking = 2;
  o.parallel_init = words.parallel_init == 1;
  o.cpu_time = words.cpu_time == 1;
  o.average = static_cast<Average>(words.average);
  o.register_buffers = words.local_register != 0;
  return {};
}

}  // namespace

Result<size_t> parse_size(const std::string& text) {
  const char* start = text.c_str();
  char* end = nullptr;
  const double number = std::strtod(start, &end);
  const bool begins_with_digit = !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.');
  std::string unit(end);
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::toupper(c); });
  if (unit.size() > 1 && unit.back() == 'B') unit.pop_back();
  const std::string_view known = "BKMGT";
  const size_t power = unit.empty() ? 0 : known.find(unit);
  const double bytes = std::ldexp(number, 10 * static_cast<int>(power == std::string_view::npos ? 0 : power));
  if (!begins_with_digit || end == start || power == std::string_view::npos || unit.size() > 1 || !(bytes < 0x1p60))
    return invalid_argument("'{}' is not a size; write bytes, or a number with K, M or G, such as 64K", text);
  return static_cast<size_t>(bytes);
}

std::vector<size_t> Options::sizes() const {
  std::vector<size_t> all;
  const auto factor = static_cast<size_t>(step_factor);
  for (size_t size = min_bytes; size <= max_bytes; size = factor > 1 ? size * factor : size + step_bytes) {
    all.push_back(size);
    if (factor > 1 ? size > max_bytes / factor : step_bytes == 0) break;
  }
  return all;
}

ParsedOptions parse_options(int argc, const char* const* argv, bool reduces, bool rooted) {
  ParsedOptions parsed;
  const std::string program = std::string(argv[0]).substr(std::string(argv[0]).rfind('/') + 1);
  CLI::App app("Measures a collective of Tutti and checks its results.", program);
  app.get_formatter()->column_width(34);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as nccl-tests do
  Words words;
  declare_sizes_and_counts(app, words, parsed.options);
  declare_what(app, words, reduces, rooted);
  declare_how(app, words, parsed.options);
  app.set_version_flag("--version", std::string(), "print the version of the program and of the library");
  Status status;
  try {
    app.parse(argc, argv);
    status = interpret(words, parsed.options);
    if (status.ok() && app.count("-J") > 0 && parsed.options.json_file.empty())
      status = invalid_argument("--output_file '': give the name of a file");
  } catch (const CLI::CallForHelp&) {
    parsed.exit_now = true;
    parsed.text = app.help();
    return parsed;
  } catch (const CLI::CallForVersion&) {
    parsed.version = true;
    return parsed;
  } catch (const CLI::ParseError& error) {
    status = invalid_argument("{}", error.what());
  }
  if (status.ok()) return parsed;
  parsed.exit_now = true;
  parsed.exit_status = 2;
  parsed.text = fmt::format("{}: {} (see {} --help)\n", program, status.message(), program);
  return parsed;
}

}  // namespace tutti::perf
