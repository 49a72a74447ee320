"""The *_perf programs from outside: what they print, write and return, alone, with threads and under `tutti run`."""

import json
import os
import pathlib
import re
import select
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

import ranks
from process import BIN, ProgramTest, run

SOON = 60
SMALL = ("-b", "8", "-e", "64K", "-f", "128", "-n", "2", "-w", "1")
COLUMNS = 13
FAMILY = {"allreduce": "sum", "reduce": "sum", "reduce_scatter": "sum", "broadcast": "none", "all_gather": "none",
          "alltoall": "none", "gather": "none", "scatter": "none", "sendrecv": "none"}
NO_IN_PLACE = {"alltoall", "sendrecv"}


def program(name):
    return BIN / f"{name}_perf"


def rows_of(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


class PerfTest(ProgramTest):
    def right(self, command, **environment):
        outcome = self.expect(run(command, **environment), 0)
        self.assertEqual(outcome.err, "")
        rows = rows_of(outcome.out)
        self.assertTrue(rows)
        for row in rows:
            self.assertEqual(len(row), COLUMNS, outcome)
            self.assertIn(row[8], ("0",), outcome)
            self.assertIn(row[12], ("0", "N/A"), outcome)
        self.assertRegex(outcome.out, r"(?m)^# Out of bounds values : 0 OK$")
        self.assertRegex(outcome.out, r"(?m)^# Avg bus bandwidth    : [0-9.e+-]+ $")
        return outcome, rows


class Family(PerfTest):
    def test_every_collective_with_threads(self):
        for name, operation in FAMILY.items():
            with self.subTest(name):
                _, rows = self.right([program(name), "-t", 3, *SMALL])
                self.assertEqual([row[3] for row in rows], [operation] * 2)
                self.assertEqual({row[12] for row in rows}, {"N/A" if name in NO_IN_PLACE else "0"})

    def test_every_collective_with_processes(self):
        for name in FAMILY:
            with self.subTest(name):
                self.right([BIN / "tutti", "run", "-n", 2, "--", program(name), *SMALL])

    def test_every_type_and_operation(self):
        for name in ("allreduce", "reduce_scatter", "reduce"):
            with self.subTest(name):
                _, rows = self.right([program(name), "-t", 3, "-b", 48, "-e", 48, "-n", 1, "-d", "all", "-o", "all"])
                self.assertEqual(len({(row[2], row[3]) for row in rows}), 12 * 6)

    def test_every_type_that_is_moved(self):
        for name in ("broadcast", "all_gather", "alltoall"):
            with self.subTest(name):
                _, rows = self.right([program(name), "-t", 2, "-b", 48, "-e", 48, "-n", 1, "-d", "all"])
                self.assertEqual(len({row[2] for row in rows}), 12)

    def test_every_root(self):
        for name in ("broadcast", "reduce", "gather", "scatter"):
            with self.subTest(name):
                _, rows = self.right([program(name), "-t", 3, "-b", 60, "-e", 60, "-n", 1, "-r", "all"])
                self.assertEqual([row[4] for row in rows], ["0", "1", "2"])

    def test_odd_sizes_and_nothing(self):
        for name in ("allreduce", "all_gather", "reduce_scatter", "alltoall"):
            with self.subTest(name):
                self.right([program(name), "-t", 3, "-b", 0, "-e", 12, "-i", 1, "-n", 1, "-d", "int8"])


class Ways(PerfTest):
    def test_one_rank(self):
        self.right([program("allreduce"), *SMALL])

    def test_threads_in_processes(self):
        outcome, _ = self.right([BIN / "tutti", "run", "-n", 2, "--", program("allreduce"), "-t", 2, *SMALL])
        pids = re.findall(r"(?m)^#  Rank +\d+ Group +0 Pid +(\d+) on", outcome.out)
        self.assertEqual(len(pids), 4)
        self.assertEqual(pids[0], pids[1])
        self.assertEqual(len(set(pids)), 2)

    def test_ways_to_call(self):
        for options in (("-z", 1), ("-z", 2), ("-y", 1), ("-m", 4), ("-C", 1), ("-p", 0), ("-R", 1), ("-N", 2), ("-c", 3), ("-T", 50)):
            for average in range(4) if options == ("-z", 2) else (1,):
                with self.subTest(options, average=average):
                    _, rows = self.right([program("allreduce"), "-t", 2, *SMALL, *options, "-a", average])
                    self.assertEqual(len(rows), 4 if options == ("-N", 2) else 2)

    def test_no_check(self):
        outcome = self.expect(run([program("allreduce"), "-t", 2, *SMALL, "-c", 0]), 0)
        self.assertEqual({(row[8], row[12]) for row in rows_of(outcome.out)}, {("N/A", "N/A")})

    def test_bandwidth_that_is_asked_for(self):
        bandwidth = ("-t", 2, "-b", "64K", "-e", "64K", "-n", 2)
        self.assertIn("FAILED", self.expect(run([program("allreduce"), *bandwidth], NCCL_TESTS_MIN_BW="1e9"), 1).out)
        self.assertRegex(self.expect(run([program("allreduce"), *bandwidth], NCCL_TESTS_MIN_BW="1e-9"), 0).out, r"bandwidth +: .* OK")


class Report(PerfTest):
    def report(self, *options, **environment):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.json"
            self.right([BIN / "tutti", "run", "-n", 2, "--", program("allreduce"), *SMALL, "-J", path, *options], **environment)
            self.assertEqual(os.listdir(folder), ["out.json"])
            return json.loads(path.read_text())

    def test_what_was_forced(self):
        for transport in ("shm", "tcp"):
            for algorithm in ("ring", "tree", "halving_doubling"):
                with self.subTest(transport, algorithm=algorithm):
                    report = self.report(TUTTI_TRANSPORT=transport, TUTTI_ALGO=algorithm)
                    for row in report["results"]:
                        self.assertEqual((row["algorithm"], row["algorithm_forced"]), (algorithm, "true"))
                        self.assertEqual((row["transport"], row["transport_forced"]), ([transport], "true"))
                        self.assertEqual(row["protocol"], "simple")
                        self.assertEqual((row["out_of_place"]["nwrong"], row["in_place"]["nwrong"]), (0, 0))

    def test_what_was_chosen(self):
        report = self.report()
        self.assertEqual(report["results"][0]["algorithm_forced"], "false")
        self.assertEqual(report["out_of_bounds"], {"count": 0, "okay": "true"})
        self.assertEqual([device["rank"] for device in report["config"]["devices"]], [0, 1])
        self.assertTrue(all(re.match(r"TUTTI_|RANK=|WORLD_SIZE=|LOCAL_RANK=|MASTER_", entry) for entry in report["env"]), report["env"])

    def test_report_to_a_stream(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "both"
            for script in ('exec "$@"', f'exec "$@" >{path}'):
                with self.subTest(script):
                    outcome = self.expect(run(["/bin/sh", "-c", script, "sh", program("allreduce"), *SMALL, "-J", "/dev/stdout"]), 0)
                    table, report = (outcome.out or path.read_text()).split("\n{", 1)
                    self.assertEqual(len(json.loads("{" + report)["results"]), len(rows_of(table)))
                    self.assertIn("# Collective test concluded", table)
        self.right([program("allreduce"), *SMALL, "-J", "/dev/null"])
        self.assertTrue(Path("/dev/null").is_char_device() and not Path("/dev/null.0").exists())

    def test_header_says_it_too(self):
        outcome, _ = self.right([program("allreduce"), "-t", 2, *SMALL], TUTTI_ALGO="ring", TUTTI_TRANSPORT="tcp")
        self.assertIn("# Choice: 8 .. 1024 B of float: algorithm ring (forced), protocol simple, transport tcp (forced)\n", outcome.out)


class Trouble(PerfTest):
    def test_bad_command_line(self):
        outcome = self.expect(run([program("allreduce"), "--no-such-option"]), 2)
        self.assertEqual(outcome.out, "")
        self.assertIn("--no-such-option", outcome.err)

    def test_no_usable_gpu(self):
        if pathlib.Path("/dev/nvidiactl").exists():
            self.skipTest("there may be a GPU")
        outcome = self.expect(run([program("allreduce"), "-g", 1]), 1)
        self.assertEqual(outcome.out, "")
        self.assertIn("there is no usable GPU", outcome.err)
        self.assertEqual(len(outcome.err.strip().splitlines()), 1)

    def test_root_out_of_range(self):
        outcome = self.expect(run([program("reduce"), "-t", 2, "-r", 2, *SMALL]), 1)
        self.assertIn("0 to 1", outcome.err)

    def test_report_that_cannot_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in ("/no/such/folder/file", folder, ""):
                with self.subTest(path):
                    outcome = self.expect(run([program("allreduce"), *SMALL, "-J", path]), 2)
                    self.assertIn(f"--output_file {path or repr(path)}", outcome.err)
                    self.assertEqual(outcome.out, "", "before the measuring")
            self.assertFalse(Path(f"{folder}.0").exists())
        outcome = self.expect(run([program("allreduce"), *SMALL, "-J", "/dev/full"]), 1)
        self.assertIn("/dev/full", outcome.err)
        self.assertIn("ENOSPC", outcome.err)

    def test_only_rank_0_makes_the_report(self):
        for rank in (0, 1):
            with self.subTest(rank), tempfile.TemporaryDirectory() as folder:
                # MPICH in a Slurm job. The size ends it before it waits for the other.
                self.expect(run([program("allreduce"), *SMALL, "-J", f"{folder}/report"], PMI_RANK=str(rank), PMI_SIZE="none",
                                MPI_LOCALNRANKS="2", SLURM_PROCID="0", SLURM_NTASKS="1", SLURM_JOB_ID="7"), 1)
                self.assertEqual(os.listdir(folder), [] if rank else ["report"])

    def shell(self, script):
        return run(["/bin/sh", "-c", script, "sh", program("allreduce"), *SMALL])

    def test_table_that_cannot_be_written(self):
        for arguments in ("", "--help"):
            with self.subTest(arguments):
                outcome = self.expect(self.shell(f'exec "$@" {arguments} >/dev/full'), 1)
                self.assertIn("standard output", outcome.err)
                self.assertIn("ENOSPC", outcome.err)
        self.assertIn("EBADF", self.expect(self.shell('exec "$@" >&-'), 1).err)

    def test_limit_on_file_sizes(self):
        # 1024 bytes: less than a table, and than a report.
        with tempfile.TemporaryDirectory() as folder:
            outcome = self.expect(self.shell(f'ulimit -f 2; exec "$@" >{folder}/table'), 1)
            self.assertIn("standard output", outcome.err)
            self.assertIn("EFBIG", outcome.err)
            outcome = self.expect(self.shell(f'ulimit -f 2; exec "$@" -J {folder}/report'), 1)
            self.assertIn(f"{folder}/report", outcome.err)
            self.assertIn("EFBIG", outcome.err)

    def test_error_of_the_library(self):
        outcome = self.expect(run([program("allreduce"), "-t", 2, *SMALL], TUTTI_ALGO="rign"), 1)
        self.assertIn("allreduce_perf", outcome.err)
        self.assertIn("ring", outcome.err)

    def test_launcher_variable_that_is_missing(self):
        outcome = self.expect(run([program("allreduce"), *SMALL], RANK="0"), 1)
        self.assertIn("WORLD_SIZE", outcome.err)

    def test_wrong_results_fail_the_run(self):
        library = os.environ.get("SPOIL_LIBRARY")
        if not library:
            self.skipTest("a library cannot be put before a sanitizer's")
        for element, where in (("5", "received element 5 is"), ("-1", "must not change")):
            for launch in ([], [BIN / "tutti", "run", "-n", 3, "--"]):
                with self.subTest(where, launched=bool(launch)):
                    outcome = run([*launch, program("allreduce"), *([] if launch else ["-t", 3]), "-b", 64, "-e", 64, "-n", 1, "-w", 0, "-z", 2,
                                   "-c", 2], LD_PRELOAD=library, SPOIL_ELEMENT=element)
                    self.expect(outcome, 1)
                    row = rows_of(outcome.out)[0]
                    self.assertEqual((row[8], row[12]), ("2", "2"), outcome)
                    self.assertIn("# Out of bounds values : 4 FAILED", outcome.out)
                    self.assertIn("rank 1: 1 wrong of 16 float sum", outcome.err)
                    self.assertIn(where, outcome.err)


class Pages(unittest.TestCase):
    def test_examples_with_a_range_of_sizes_give_a_factor(self):
        # Without, the step is 1M: -e 64M alone measures 33 sizes.
        source = Path(os.environ["SOURCE_UNDER_TEST"])
        for page in (source / "README.md", *(source / "docs").glob("*.md"), source / "perf/README.md"):
            for command in re.findall(r"\w+_perf(?: +-{1,2}\w+(?:[ =][\w./]+)?)*", page.read_text()):
                if re.search(r" -e\b", command):
                    self.assertRegex(command, r" -[fi] \d", page.name)


class Interruption(PerfTest):
    def test_sigint_ends_with_130_and_no_report(self):
        for options in (("-b", 8, "-e", 8, "-N", 0), ("-b", "4M", "-e", "4M", "-n", 1000000)):
            with self.subTest(options), tempfile.TemporaryDirectory() as folder:
                process = subprocess.Popen([str(program("allreduce")), "-t", "2", *map(str, options), "-J", f"{folder}/out.json"],
                                           env=ranks.clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
                while "busbw" not in (line := ranks.read_line(process.stdout, SOON)):
                    self.assertTrue(line, "it did not begin")
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=SOON)
                self.assertEqual(process.returncode, 130, err)
                self.assertIn(b"interrupted", err)
                if os.listdir(folder):
                    self.assertIn("interrupted by signal 2", json.loads(Path(f"{folder}/out.json").read_text())["errors"])


class Progress(PerfTest):
    def test_nothing_without_a_terminal_and_a_line_with_one(self):
        ours, theirs = os.openpty()
        process = subprocess.Popen([str(program("allreduce")), "-t", "2", "-b", "8", "-e", "8", "-n", "20", "-N", "0"],
                                   env=ranks.clean_environment(), stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        try:
            seen = b""
            while b"allreduce_perf float sum" not in seen:
                ready, _, _ = select.select([ours, process.stdout], [], [], SOON)
                self.assertTrue(ready, "no progress line")
                if process.stdout in ready:
                    self.assertNotIn(b"\r", os.read(process.stdout.fileno(), 1 << 16))
                if ours in ready:
                    seen += os.read(ours, 1 << 16)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=SOON)
            os.close(ours)


if __name__ == "__main__":
    unittest.main()
