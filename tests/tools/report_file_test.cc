// Where -J's report may go.
#include "perf/report_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tutti::perf {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ReportFiles : public testing::Test {
 protected:
  ~ReportFiles() override { std::filesystem::remove_all(folder_); }

  static std::string claimed(const std::string& path) {
    Result<ReportFile> file = claim_report_file(path);
    return file.ok() ? file->path : std::string(file.status().message());
  }
  static std::string contents(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static std::string new_folder() {
    std::string folder = testing::TempDir() + "tutti-report-XXXXXX";
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    return folder;
  }

  const std::string folder_ = new_folder();
  const std::string path_ = folder_ + "/out.json";
};

TEST_F(ReportFiles, AnExistingFileGetsANeighbour) {
  Result<ReportFile> file = claim_report_file(path_);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->path, path_);
  EXPECT_EQ(claimed(path_), path_ + ".0");
  EXPECT_EQ(claimed(path_), path_ + ".1");
  ASSERT_TRUE(write_report(*file, "text").ok());
  EXPECT_EQ(contents(path_), "text");
  withdraw(*file);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ReportFiles, AFolderIsNoFile) {
  EXPECT_THAT(claimed(folder_), AllOf(HasSubstr("--output_file " + folder_), HasSubstr("EISDIR")));
  EXPECT_FALSE(std::filesystem::exists(folder_ + ".0"));
  EXPECT_THAT(claimed(folder_ + "/no/such/folder"), AllOf(HasSubstr("--output_file"), HasSubstr("ENOENT")));
}

TEST_F(ReportFiles, ADeviceIsWrittenAndStays) {
  const std::string link = folder_ + "/null";
  ASSERT_EQ(::symlink("/dev/null", link.c_str()), 0);
  Result<ReportFile> file = claim_report_file(link);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->path, link);
  EXPECT_TRUE(write_report(*file, "text").ok());
  withdraw(*file);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  Result<ReportFile> full = claim_report_file("/dev/full");
  ASSERT_TRUE(full.ok());
  EXPECT_THAT(write_report(*full, "text").c_str(), AllOf(HasSubstr("/dev/full"), HasSubstr("ENOSPC")));
}

TEST_F(ReportFiles, ADescriptorIsWrittenWhereItStands) {
  const Fd fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::write(fd.get(), "before ", 7), 7);
  for (const char* folder_of_descriptors : {"/dev/fd/", "/proc/self/fd/"}) {
    Result<ReportFile> file = claim_report_file(folder_of_descriptors + std::to_string(fd.get()));
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE(write_report(*file, "after ").ok());
  }
  EXPECT_EQ(contents(path_), "before after after ");
  EXPECT_THAT(claimed("/dev/fd/987654"), HasSubstr("EBADF"));
  const Fd read_only(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(claimed("/dev/fd/" + std::to_string(read_only.get())), HasSubstr("EBADF"));
}

}  // namespace
}  // namespace tutti::perf
