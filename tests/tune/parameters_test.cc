#include "tune/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Parameters& usual() { return built_in_parameters(MachineClass::one_last_level_cache); }

std::string refusal(std::string_view text) {
  const Result<Parameters> parameters = parse_parameters(text, usual());
  EXPECT_EQ(parameters.status().code(), tuttiInvalidUsage) << text;
  return std::string(parameters.status().message());
}

TEST(TuningFile, ReadsBackWhatWasWritten) {
  Parameters written = usual();
  double value = 1;
  for (const ParameterField& field : parameter_fields()) field.of(written) = (value += 1.375) * field.unit_s;
  const std::pair<std::string, std::string> notes[] = {{"machine", "a \"quoted\" one"}};
  const Result<Parameters> read = parse_parameters(to_json(written, notes), usual());
  ASSERT_TRUE(read.ok()) << read.status().c_str();
  for (const ParameterField& field : parameter_fields())
    EXPECT_NEAR(field.in_file_unit(read.value()), field.in_file_unit(written), 1e-9) << field.name;
  EXPECT_EQ(hash_of(read.value()), hash_of(written));
}

TEST(TuningFile, MayLeaveFieldsOut) {
  const Result<Parameters> read =
      parse_parameters(R"({"tutti_tuning": 1, "note": [], "parameters": {"step_ns": 77}})", usual());
  ASSERT_TRUE(read.ok()) << read.status().c_str();
  EXPECT_DOUBLE_EQ(read.value().step_s, 77e-9);
  EXPECT_EQ(read.value().fold_s_per_byte, usual().fold_s_per_byte);
  EXPECT_NE(hash_of(read.value()), hash_of(usual()));
}

TEST(TuningFile, SaysWhatIsWrong) {
  EXPECT_THAT(refusal(""), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("{\"tutti_tuning\": 1,\n  oops}"), AllOf(HasSubstr("not JSON"), HasSubstr("line 2")));
  EXPECT_THAT(refusal("[1]"), AllOf(HasSubstr("tutti_tuning"), HasSubstr("tutti tune -o")));
  EXPECT_THAT(refusal(R"({"parameters": {}})"), HasSubstr("tutti_tuning"));
  EXPECT_THAT(refusal(R"({"tutti_tuning": 2, "parameters": {}})"), AllOf(HasSubstr("is 2"), HasSubstr("version 1")));
  EXPECT_THAT(refusal(R"({"tutti_tuning": 1})"), HasSubstr("\"parameters\""));
  EXPECT_THAT(refusal(R"({"tutti_tuning": 1, "parameters": 3})"), HasSubstr("\"parameters\""));
  EXPECT_THAT(refusal(R"({"tutti_tuning": 1, "parameters": {"stepns": 3}})"),
              AllOf(HasSubstr("stepns"), HasSubstr("mean step_ns?")));
  EXPECT_THAT(refusal(R"({"tutti_tuning": 1, "parameters": {"colour": 3}})"), HasSubstr("mapped_latency_ns"));
  for (const char* value : {"-1", "\"3\"", "null", "1e300", "[]"})
    EXPECT_THAT(refusal(fmt::format(R"({{"tutti_tuning": 1, "parameters": {{"step_ns": {}}}}})", value)),
                AllOf(HasSubstr("step_ns is"), HasSubstr("from 0 to")));
}

TEST(TuningFile, ThatCannotBeReadIsNamed) {
  const Result<Parameters> none = read_parameters("/nowhere/tuning.json", usual());
  EXPECT_EQ(none.status().code(), tuttiInvalidUsage);
  EXPECT_THAT(none.status().c_str(),
              AllOf(HasSubstr("TUTTI_TUNING_FILE=/nowhere/tuning.json"), HasSubstr("No such file")));
  const std::string path = testing::TempDir() + "/tutti_bad_tuning.json";
  std::ofstream(path) << "{}";
  EXPECT_THAT(read_parameters(path, usual()).status().c_str(), AllOf(HasSubstr(path), HasSubstr("tutti_tuning")));
  EXPECT_THAT(read_parameters(testing::TempDir(), usual()).status().c_str(), HasSubstr("directory"));
}

// What ranks compare: every field counts.
TEST(Parameters, HashDependsOnEveryField) {
  const uint64_t hash = hash_of(usual());
  for (const ParameterField& field : parameter_fields()) {
    Parameters other = usual();
    field.of(other) += 0.001 * field.unit_s;
    EXPECT_NE(hash_of(other), hash) << field.name;
  }
}

TEST(Parameters, BuiltInOnesCanBeWritten) {
  for (const MachineClass machine : {MachineClass::one_last_level_cache, MachineClass::several_last_level_caches}) {
    const Parameters& p = built_in_parameters(machine);
    const Result<Parameters> read = parse_parameters(to_json(p, {}), Parameters{});
    ASSERT_TRUE(read.ok()) << read.status().c_str();
    EXPECT_EQ(hash_of(read.value()), hash_of(p));
  }
}

}  // namespace
}  // namespace tutti
