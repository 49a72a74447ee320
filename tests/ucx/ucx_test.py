"""AllReduce over UCX, by each of its ways on one host; and what is said where there is none."""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import ranks

WAYS = {"tcp": "tcp", "shared memory": "posix,cma,self", "any": None}


def run(*command, ways=None, **variables):
    extra = {name: value for name, value in {"UCX_TLS": ways, **variables}.items() if value}
    return subprocess.run([str(word) for word in command], env=ranks.clean_environment(**extra), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)


class Ucx(unittest.TestCase):
    bin = Path()

    def all_reduce(self, nranks, *options, **variables):
        return run(self.bin / "tutti", "run", "-n", nranks, "--", self.bin / "allreduce_perf", *options, **variables)

    def test_every_way_gives_the_right_sums(self):
        for name, ways in WAYS.items():
            for nranks in (2, 3, 4):
                for algorithm in ("ring", "all_pairs"):
                    with self.subTest(ways=name, nranks=nranks, algorithm=algorithm), tempfile.TemporaryDirectory() as folder:
                        report = Path(folder) / "out.json"
                        done = self.all_reduce(nranks, "-b", "8", "-e", "4M", "-f", "8", "-c", "1", "-n", "3", "-J", report,
                                               ways=ways, TUTTI_TRANSPORT="ucx", TUTTI_ALGO=algorithm)
                        self.assertEqual(done.returncode, 0, done.stderr)
                        self.assertNotIn("UCX", done.stdout, "UCX writes into the table")
                        results = json.loads(report.read_text())["results"]
                        self.assertGreater(len(results), 5)
                        for result in results:
                            self.assertEqual(result["transport"], ["ucx"])
                            for place in ("out_of_place", "in_place"):
                                self.assertEqual(int(result[place]["nwrong"]), 0, result)

    def test_only_those_who_name_it_get_it(self):
        done = self.all_reduce(2, "-b", "8", "-e", "8", TUTTI_TRANSPORT="^shm", TUTTI_DEBUG="INFO")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("by tcp", done.stdout + done.stderr)
        self.assertIn("not ucx: TUTTI_TRANSPORT does not name it", done.stdout + done.stderr)

    def test_without_a_way_the_error_has_the_reason_of_ucx(self):
        done = self.all_reduce(2, "-b", "8", "-e", "8", ways="bogus", TUTTI_TRANSPORT="ucx")
        self.assertEqual(done.returncode, 1)
        for part in ("TUTTI_TRANSPORT", "ucx", "asked bogus", "UCX_TLS"):
            self.assertIn(part, done.stderr)

    def test_without_a_way_the_next_transport_serves(self):
        done = self.all_reduce(2, "-b", "8", "-e", "8", ways="bogus", TUTTI_TRANSPORT="ucx,tcp", TUTTI_DEBUG="INFO")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("by tcp; not ucx: at rank", done.stdout + done.stderr)
        self.assertIn("asked bogus", done.stdout + done.stderr)

    def ranks_without_a_common_way(self, transports, **variables):
        each = ('case $RANK in 0) UCX_TLS=tcp;; *) UCX_TLS=posix,self;; esac; export UCX_TLS; exec "$@"')
        return run(self.bin / "tutti", "run", "-n", 2, "--", "sh", "-c", each, "sh", self.bin / "allreduce_perf", "-b", "8", "-e",
                   "8", TUTTI_TRANSPORT=transports, **variables)

    def test_ranks_without_a_common_way_are_told_so(self):
        done = self.ranks_without_a_common_way("ucx")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no allowed transport connects rank", done.stderr)
        self.assertIn("Destination is unreachable", done.stderr)

    def test_ranks_without_a_common_way_take_the_next_transport(self):
        done = self.ranks_without_a_common_way("ucx,tcp", TUTTI_DEBUG="INFO")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("by tcp; not ucx: ", done.stdout + done.stderr)

    def test_without_the_plug_in_the_error_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(self.bin.parent / "lib" / "libtutti.so.0", folder)  # alone, where the loader looks first
            done = self.all_reduce(1, "-b", "8", "-e", "8", TUTTI_TRANSPORT="ucx", LD_LIBRARY_PATH=folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("libtutti_ucx.so cannot be loaded", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=Path)
    Ucx.bin = parser.parse_args().bin
    unittest.main(argv=sys.argv[:1])
