"""`tutti tune`: a whole measurement, once."""

import json
import tempfile
import unittest
from pathlib import Path

from process import BIN, ProgramTest, run

TUTTI = BIN / "tutti"


class Tune(ProgramTest):
    def test_a_file_that_the_library_takes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tuning.json"
            self.expect(run([TUTTI, "tune", "-n", 2, "--rounds", 1, "-o", path], seconds=280), 0)
            parameters = json.loads(path.read_text())["parameters"]
            for name in ("mapped_latency_ns", "mapped_send_ns_per_kib", "tcp_one_host_latency_ns", "fold_ns_per_kib"):
                self.assertGreater(parameters[name], 0)
            self.assertIn(str(path), self.expect(run([TUTTI, "explain", "-n", 2, "--tuning", path]), 0).out)
            self.expect(run([BIN / "allreduce_perf", "-t", 2, "-b", "1K", "-e", "1K", "-n", 1, "-c", 1],
                            TUTTI_TUNING_FILE=str(path)), 0)

    def test_a_file_that_cannot_be_written_is_noticed_before_anything_is_measured(self):
        outcome = self.expect(run([TUTTI, "tune", "-o", "/nowhere/tuning.json"]), 1)
        self.assertIn("/nowhere/tuning.json", outcome.err)


if __name__ == "__main__":
    unittest.main()
