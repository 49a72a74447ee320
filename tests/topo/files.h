// Topology files for the tests: the project's own, and those of real machines that lie beside the checkout where they
// are there.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "topo/read.h"

namespace tutti {

inline std::filesystem::path data_folder() { return TUTTI_TOPO_DATA; }
inline std::filesystem::path shared_folder() { return TUTTI_TOPO_SHARED; }

// The machine of a file; a failed test where it cannot be read.
inline Machine machine_of(const std::filesystem::path& path) {
  Result<TopologyFile> file = read_topology(path.string());
  EXPECT_TRUE(file.ok()) << file.status().c_str();
  return file.ok() ? std::move(file->machine) : Machine{};
}

inline Machine own(const char* name) { return machine_of(data_folder() / name); }

}  // namespace tutti

// Where the files of real machines are missing, the test skips.
#define TUTTI_NEED_SHARED()                                   \
  if (!std::filesystem::is_directory(tutti::shared_folder())) \
  GTEST_SKIP() << "there is no " << tutti::shared_folder().string()
