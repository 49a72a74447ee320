"""summary.py on reports as ctest 3.25 writes them."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import summary

REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux-c++" tests="6" failures="1" disabled="1" skipped="3">
  <testcase name="a" classname="a" time="0.1" status="run"><system-out>fine \x1b[0m</system-out></testcase>
  <testcase name="b" classname="b" time="0.1" status="fail"><failure message=""/><system-out/></testcase>
  <testcase name="c" classname="c" time="0.1" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
    <system-out>SKIP: no slurmd here</system-out></testcase>
  <testcase name="d" classname="d" time="0.1" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
    <system-out>/x/y_test.cc:9: Skipped\nneeds two cores\n</system-out></testcase>
  <testcase name="e" classname="e" time="0" status="disabled"><skipped message="Disabled"/><system-out>Disabled</system-out></testcase>
  <testcase name="f" classname="f" time="0" status="notrun"><skipped message="Unable to find executable"/></testcase>
</testsuite>
"""


class Summary(unittest.TestCase):
    def run_on(self, *reports):
        with tempfile.TemporaryDirectory() as folder:
            arguments = []
            for index, report in enumerate(reports):
                path = Path(folder) / f"{index}.xml"
                path.write_text(report)
                arguments.append(f"build{index}={path}")
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                status = summary.main(arguments)
            return status, out.getvalue().rstrip("\n").split("\n")

    def test_counts_and_reasons(self):
        status, lines = self.run_on(REPORT, REPORT)
        self.assertEqual(status, 1)
        self.assertEqual(lines[-1], "2 passed, 4 failed, 6 skipped")
        text = "\n".join(lines)
        self.assertIn("skipped: no slurmd here: build0: c, build1: c", text)
        self.assertIn("skipped: needs two cores: build0: d", text)
        self.assertIn("FAILED: build0: f (Unable to find executable)", text)

    def test_success(self):
        status, lines = self.run_on(REPORT.replace('status="fail"><failure message=""/>', 'status="run">').replace(
            '<skipped message="Unable to find executable"/>', "").replace('time="0" status="notrun"', 'time="0" status="run"'))
        self.assertEqual((status, lines[-1]), (0, "3 passed, 0 failed, 3 skipped"))

    def test_nothing_ran(self):
        status, lines = self.run_on('<testsuite name="x"/>')
        self.assertEqual((status, lines[-1]), (1, "0 passed, 0 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()
