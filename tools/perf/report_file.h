// ReportFile: where -J's report goes. It is opened at the start of a run, so that what cannot be written is an error
// before the measuring, and held until the end.
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/status.h"

namespace tutti::perf {

struct ReportFile {
  std::string path;
  Fd descriptor;
  bool created = false;  // by us; a device, a pipe or a stream of this process was there before
};

// Creates `path`, or path.0, path.1, ... when it is a file that exists. A device or a pipe is opened as it is (a named
// pipe blocks until somebody reads it), and /dev/stdout, /dev/stderr and /dev/fd/N are the process's own streams.
// Errors: a folder, or what may not be written; names --output_file, path and errno.
Result<ReportFile> claim_report_file(const std::string& path);

// All of it. Errors: the disk is full, ulimit -f is reached (SIGXFSZ must be ignored), the device refuses.
Status write_report(const ReportFile& file, std::string_view text);

// Removes the file if claim_report_file() made it.
void withdraw(const ReportFile& file);

}  // namespace tutti::perf
