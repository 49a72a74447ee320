// The command line: nccl-tests' letters and long names, and one clear line for everything else.
#include "perf/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::perf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ParsedOptions parse(std::vector<const char*> words, bool reduces = true, bool rooted = true) {
  words.insert(words.begin(), "path/allreduce_perf");
  return parse_options(static_cast<int>(words.size()), words.data(), reduces, rooted);
}

Options good(const std::vector<const char*>& words) {
  ParsedOptions parsed = parse(words);
  EXPECT_FALSE(parsed.exit_now) << parsed.text;
  return parsed.options;
}

std::string bad(const std::vector<const char*>& words) {
  ParsedOptions parsed = parse(words);
  EXPECT_TRUE(parsed.exit_now);
  EXPECT_EQ(parsed.exit_status, 2);
  EXPECT_EQ(std::count(parsed.text.begin(), parsed.text.end(), '\n'), 1) << parsed.text;
  EXPECT_THAT(parsed.text, testing::StartsWith("allreduce_perf: "));
  return parsed.text;
}

TEST(Options, DefaultsAreThoseOfNcclTests) {
  const Options o = good({});
  EXPECT_THAT(o.sizes(), ElementsAre(32u << 20));
  EXPECT_EQ(o.iterations, 20);
  EXPECT_EQ(o.warmup_iterations, 1);
  EXPECT_EQ(o.aggregated, 1);
  EXPECT_EQ(o.checks, 1);
  EXPECT_EQ(o.cycles, 1);
  EXPECT_EQ(o.threads, 1);
  EXPECT_THAT(o.types, ElementsAre(tuttiFloat32));
  EXPECT_THAT(o.operations, ElementsAre(Operation::sum));
  EXPECT_THAT(o.roots, ElementsAre(0));
  EXPECT_EQ(o.average, Average::mean);
  EXPECT_EQ(o.blocking, 0);
  EXPECT_FALSE(o.cpu_time);
}

TEST(Options, OfOneGivenTwiceTheLastCounts) {
  EXPECT_EQ(good({"-n", "3", "--iters", "5"}).iterations, 5);
  EXPECT_THAT(good({"-b", "8", "-e", "8", "-b", "4", "-e", "4"}).sizes(), ElementsAre(4u));
}

TEST(Options, ShortAndLongNamesMeanTheSame) {
  for (const Options& o :
       {good({"-b", "8",   "-e", "64K",  "-f", "4", "-n", "3",      "-w", "0", "-m", "2", "-c", "5",
              "-o", "max", "-d", "half", "-r", "2", "-t", "4",      "-N", "7", "-a", "3", "-z", "1",
              "-C", "1",   "-p", "0",    "-T", "9", "-J", "x.json", "-g", "0", "-G", "0", "-i", "4"}),
        good({"--minbytes=8",
              "--maxbytes",
              "64K",
              "--stepfactor",
              "4",
              "--iters",
              "3",
              "--warmup_iters",
              "0",
              "--agg_iters",
              "2",
              "--check",
              "5",
              "--op",
              "max",
              "--datatype",
              "half",
              "--root",
              "2",
              "--nthreads",
              "4",
              "--run_cycles",
              "7",
              "--average",
              "3",
              "--blocking",
              "1",
              "--report_cputime",
              "1",
              "--parallel_init",
              "0",
              "--timeout",
              "9",
              "--output_file",
              "x.json",
              "--ngpus",
              "0",
              "--cudagraph",
              "0",
              "--stepbytes",
              "4"})}) {
    EXPECT_EQ(o.min_bytes, 8u);
    EXPECT_EQ(o.max_bytes, 64u << 10);
    EXPECT_EQ(o.step_factor, 4);
    EXPECT_EQ(o.step_bytes, 4u);
    EXPECT_EQ(o.iterations, 3);
    EXPECT_EQ(o.warmup_iterations, 0);
    EXPECT_EQ(o.aggregated, 2);
    EXPECT_EQ(o.checks, 5);
    EXPECT_THAT(o.operations, ElementsAre(Operation::max));
    EXPECT_THAT(o.types, ElementsAre(tuttiFloat16));
    EXPECT_THAT(o.roots, ElementsAre(2));
    EXPECT_EQ(o.threads, 4);
    EXPECT_EQ(o.cycles, 7);
    EXPECT_EQ(o.average, Average::max);
    EXPECT_EQ(o.blocking, 1);
    EXPECT_TRUE(o.cpu_time);
    EXPECT_FALSE(o.parallel_init);
    EXPECT_EQ(o.timeout_seconds, 9);
    EXPECT_EQ(o.json_file, "x.json");
  }
}

TEST(Options, AllMeansEach) {
  const Options o = good({"-d", "all", "-o", "all", "-r", "all"});
  EXPECT_EQ(o.types.size(), 12u);
  EXPECT_EQ(o.operations.size(), 6u);
  EXPECT_TRUE(o.all_roots);
  EXPECT_TRUE(good({"-r", "-1"}).all_roots);
}

TEST(Options, Sizes) {
  EXPECT_EQ(*parse_size("64"), 64u);
  EXPECT_EQ(*parse_size("64K"), 65536u);
  EXPECT_EQ(*parse_size("1.5m"), 3u << 19);
  EXPECT_EQ(*parse_size("2GB"), 2ull << 30);
  EXPECT_EQ(*parse_size("0"), 0u);
  for (const char* text : {"", "K", "-1", "1X", "1KK", "1 K", "nan", "0x10Q", "inf", "99999999T"})
    EXPECT_FALSE(parse_size(text).ok()) << text;
}

TEST(Options, StepsAndFactors) {
  EXPECT_THAT(good({"-b", "8", "-e", "40", "-i", "16"}).sizes(), ElementsAre(8, 24, 40));
  EXPECT_THAT(good({"-b", "8", "-e", "100", "-f", "3"}).sizes(), ElementsAre(8, 24, 72));
  EXPECT_THAT(good({"-b", "0", "-e", "0", "-i", "0"}).sizes(), ElementsAre(0));
  EXPECT_EQ(good({"-b", "1", "-e", "900000T", "-f", "1000000000"}).sizes().size(), 2u) << "no overflow";
}

TEST(Options, NullStreamCompletesInTheCaller) { EXPECT_EQ(good({"-y", "1"}).blocking, 2); }

TEST(Options, BadInputIsOneLineThatSaysWhatIsAllowed) {
  EXPECT_THAT(bad({"-b", "abc"}), HasSubstr("--minbytes: 'abc' is not a size"));
  EXPECT_THAT(bad({"-b", "64M"}), HasSubstr("--maxbytes"));
  EXPECT_THAT(bad({"-b", "0", "-e", "8", "-f", "2"}), HasSubstr("stays 0"));
  EXPECT_THAT(bad({"-b", "0", "-e", "8", "-i", "0"}), HasSubstr("never reaches"));
  EXPECT_THAT(bad({"-b", "1", "-e", "1G", "-i", "1"}), HasSubstr("sizes, at most"));
  EXPECT_THAT(bad({"-d", "float128"}), HasSubstr("int8 uint8 int32"));
  EXPECT_THAT(bad({"-o", "median"}), HasSubstr("sum prod max min avg mulsum all"));
  EXPECT_THAT(bad({"-r", "first"}), HasSubstr("neither a rank nor all"));
  EXPECT_THAT(bad({"-n", "0"}), HasSubstr("iters"));
  EXPECT_THAT(bad({"-t", "0"}), HasSubstr("nthreads"));
  EXPECT_THAT(bad({"-a", "4"}), HasSubstr("average"));
  EXPECT_THAT(bad({"-c", "-1"}), HasSubstr("check"));
  EXPECT_THAT(bad({"-n", "many"}), HasSubstr("many"));
  EXPECT_THAT(bad({"--no-such-option"}), HasSubstr("--no-such-option"));
  EXPECT_THAT(bad({"stray"}), HasSubstr("stray"));
  EXPECT_THAT(bad({"-b"}), HasSubstr("minbytes"));
  EXPECT_THAT(bad({"-g", "-1"}), HasSubstr("ngpus"));
  EXPECT_THAT(bad({"-G", "1"}), HasSubstr("no CUDA graphs"));
}

TEST(Options, HelpNamesEveryOption) {
  for (const char* flag : {"-h", "--help"}) {
    const ParsedOptions parsed = parse({flag});
    EXPECT_TRUE(parsed.exit_now);
    EXPECT_EQ(parsed.exit_status, 0);
    for (const char* option :
         {"--minbytes",      "--maxbytes",    "--stepbytes", "--stepfactor", "--iters",          "--warmup_iters",
          "--agg_iters",     "--check",       "--op",        "--datatype",   "--root",           "--nthreads",
          "--ngpus",         "--output_file", "--average",   "--blocking",   "--report_cputime", "--cudagraph",
          "--parallel_init", "--run_cycles",  "--timeout"})
      EXPECT_THAT(parsed.text, HasSubstr(option));
  }
}

}  // namespace
}  // namespace tutti::perf
