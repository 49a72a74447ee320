"""`tutti plan`, `tutti env`, `tutti version`, and docs/env.md."""

import json
import os
import re
import tempfile
import unittest
from pathlib import Path

from process import BIN, ProgramTest, run

TUTTI = BIN / "tutti"
SOURCE = Path(os.environ["SOURCE_UNDER_TEST"])


class Env(ProgramTest):
    def test_the_page_is_what_the_program_prints(self):
        outcome = self.expect(run([TUTTI, "env", "--markdown"]), 0)
        self.assertEqual(outcome.out, (SOURCE / "docs/env.md").read_text(),
                         "docs/env.md is old: write it anew with tutti env --markdown > docs/env.md")

    def test_what_is_set_is_marked(self):
        outcome = self.expect(run([TUTTI, "env"], TUTTI_TRANSPORT="tcp"), 0)
        self.assertRegex(outcome.out, r"(?m)^TUTTI_TRANSPORT=.*\[set to tcp\]$")
        self.assertEqual(outcome.out.count("[set to"), 1)
        self.assertIn("TUTTI_ALGO=", outcome.out)

    def test_a_refused_environment_is_told(self):
        outcome = self.expect(run([TUTTI, "env"], TUTTI_TRANSPROT="tcp"), 1)
        self.assertIn("TUTTI_TRANSPORT", outcome.err)
        self.assertIn("TUTTI_ALGO=", outcome.out)


class Version(ProgramTest):
    def test_every_program_has_the_option(self):
        self.assertEqual(self.expect(run([TUTTI, "--version"]), 0).out, run([TUTTI, "version"]).out)
        for program in ("allreduce_perf", "sendrecv_perf"):
            self.assertRegex(self.expect(run([BIN / program, "--version"]), 0).out, rf"^{program} \d+\.\d+\.\d+, library \d+\.\d+\.\d+\n$")

    def test_program_and_library(self):
        self.assertRegex(self.expect(run([TUTTI, "version"]), 0).out, r"^tutti \d+\.\d+\.\d+, library \d+\.\d+\.\d+\n$")


class Usage(ProgramTest):
    def test_no_command(self):
        outcome = self.expect(run([TUTTI]), 2)
        self.assertIn("no command is given; there are run, plan, explain, tune, topo, doctor, env, version", outcome.err)
        self.assertIn("tutti --help", outcome.err)
        self.assertIn("plan", self.expect(run([TUTTI, "--help"]), 0).out)
        self.assertIn("--timeout-kill", self.expect(run([TUTTI, "run", "--help"]), 0).out)

    def test_unknown_command(self):
        for word in ("sing", "--sing"):
            self.assertIn(f"there is no command '{word}'; there are run, plan, explain, tune, topo, doctor, env, version",
                          self.expect(run([TUTTI, word]), 2).err)
        self.assertIn("'exlpain', did you mean explain?", self.expect(run([TUTTI, "exlpain", "-n", 2]), 2).err)
        self.assertIn("tutti explain --help", self.expect(run([TUTTI, "explain", "--sing"]), 2).err)

    def test_words_behind_dashes_are_for_run_alone(self):
        outcome = self.expect(run([TUTTI, "env", "--", "--markdwon"]), 2)
        self.assertEqual(outcome.out, "")
        self.assertIn("--markdwon", outcome.err)


    def test_output_that_cannot_be_written(self):
        for words in (("env",), ("--help",), ("version",), ("explain",)):
            with self.subTest(words):
                outcome = self.expect(run(["/bin/sh", "-c", 'exec "$@" >/dev/full', "sh", TUTTI, *words]), 1)
                self.assertIn("No space left", outcome.err)
        with tempfile.TemporaryDirectory() as folder:
            outcome = self.expect(run(["/bin/sh", "-c", f'ulimit -f 2; exec "$@" >{folder}/env', "sh", TUTTI, "env"]), 1)
            self.assertIn("File too large", outcome.err)


class Plan(ProgramTest):
    RING = ("plan", "--collective", "all_reduce", "--algo", "ring", "-n", 4)

    def test_text(self):
        outcome = self.expect(run([TUTTI, *self.RING]), 0)
        self.assertEqual(re.findall(r"(?m)^rank (\d+)", outcome.out), ["0", "1", "2", "3"])
        one = self.expect(run([TUTTI, *self.RING, "--rank", 1]), 0)
        self.assertTrue(one.out.startswith("plan chunks"), one)
        self.assertIn("move ", one.out)

    def test_json(self):
        plans = json.loads(self.expect(run([TUTTI, *self.RING, "--format", "json"]), 0).out)
        self.assertEqual(len(plans), 4)
        plan = json.loads(self.expect(run([TUTTI, *self.RING, "--format", "json", "--rank", 2]), 0).out)
        self.assertEqual(plan, plans[2])
        self.assertTrue(plan["lanes"][0]["moves"])

    def test_dot(self):
        graph = self.expect(run([TUTTI, *self.RING, "--format", "dot"]), 0).out
        self.assertTrue(graph.startswith("digraph"))
        self.assertGreaterEqual(graph.count("->"), 4)

    def test_root_and_lanes(self):
        tree = ("plan", "--collective", "broadcast", "--algo", "tree", "-n", 5)
        plain = self.expect(run([TUTTI, *tree]), 0).out
        self.assertNotEqual(self.expect(run([TUTTI, *tree, "--root", 3]), 0).out, plain)
        self.assertGreater(self.expect(run([TUTTI, *tree, "--lanes", 2]), 0).out.count("lane peers"), plain.count("lane peers"))

    def bad(self, *words):
        outcome = self.expect(run([TUTTI, "plan", *words]), 2)
        self.assertEqual(outcome.out, "")
        self.assertEqual(outcome.err.count("\n"), 1, outcome)
        return outcome.err

    def test_bad_input(self):
        self.assertIn("--collective", self.bad())
        self.assertIn("all_reduce", self.bad("--collective", "sing", "--algo", "ring"))
        self.assertIn("tree", self.bad("--collective", "all_reduce", "--algo", "rign"))
        self.assertIn("0 to 3", self.bad("--collective", "all_reduce", "--algo", "ring", "--rank", "4"))
        self.assertIn("0 to 4095", self.bad("--collective", "all_reduce", "--algo", "ring", "--rank", "-1"))
        self.assertIn("0 to 3", self.bad("--collective", "broadcast", "--algo", "ring", "--root", "4"))
        self.assertIn("no root", self.bad("--collective", "all_reduce", "--algo", "ring", "--root", "1"))
        self.assertIn("no root", self.bad("--collective", "all_to_all", "--algo", "all_pairs", "--root", "0"))
        for option in (("--root", "1"), ("--rank", "1"), ("--format", "json")):
            self.assertIn(option[0], self.bad("--verify", "--algo", "ring", *option))
        self.assertIn("-n", self.bad("--collective", "all_reduce", "--algo", "ring", "-n", "0"))
        self.assertIn("-n", self.bad("--collective", "all_reduce", "--algo", "ring", "-n", "4x"))
        self.assertIn("--verify", self.bad("--collective", "all_reduce", "--algo", "ring", "-n", "1..4"))
        self.assertIn("format", self.bad("--format", "xml"))
        self.assertIn("all ranks", self.bad("--collective", "all_reduce", "--algo", "ring", "--rank", "1", "--format", "dot"))

    def test_verify(self):
        outcome = self.expect(run([TUTTI, "plan", "--verify", "-n", "1..9"]), 0)
        self.assertRegex(outcome.out, r"(?m)^ring +all_reduce +right \(9 shapes\)$")
        self.assertNotIn("WRONG", outcome.out)
        some = self.expect(run([TUTTI, "plan", "--verify", "--algo", "tree", "-n", "5"]), 0).out.splitlines()
        self.assertTrue(some and all(line.startswith("tree ") for line in some))


class Explain(ProgramTest):
    def table(self, *words, **environment):
        """The rows of the table, best first, and the line above it."""
        lines = self.expect(run([TUTTI, "explain", *words], **environment), 0).out.splitlines()
        self.assertIn("hand-overs", lines[1])
        return [line.split() for line in lines[2:]], lines[0]

    def test_the_least_is_chosen(self):
        rows, head = self.table("-n", 4, "--bytes", "1M", "--cores", 4)
        self.assertIn("all_reduce of 1048576 bytes over 4 ranks", head)
        self.assertEqual({row[0] for row in rows}, {"ring", "tree", "all_pairs", "all_pairs_one_shot", "recursive_doubling",
                                                    "halving_doubling"})
        times = [float(row[5]) for row in rows]
        self.assertLess(times[0], 1.1 * min(times), "but for a few percent, which fewer lanes are worth")
        self.assertGreater(times[-1], times[0])
        self.assertEqual(rows[0][-1], "chosen")
        self.assertEqual(sum(row[-1] == "chosen" for row in rows), 1)

    def test_more_ranks_than_cores_take_longer(self):
        def best(cores):
            return float(self.table("-n", 8, "--bytes", "16M", "--cores", cores)[0][0][5])
        self.assertGreater(best(2), 2 * best(8))

    def test_what_is_asked_for_counts(self):
        self.assertIn("tcp on one host", self.table("-n", 4, "--transport", "tcp")[1])
        self.assertIn("tcp between hosts", self.table("-n", 4, "--hosts", 2)[1])
        self.assertIn("barrier of 0 bytes", self.table("--collective", "barrier")[1])
        self.assertEqual(self.table("-n", 4, "--collective", "all_to_all")[0][0][0], "all_pairs")
        rows, _ = self.table("-n", 4, TUTTI_ALGO="ring", TUTTI_LANES="3", TUTTI_TILE="8K")
        self.assertEqual([row[:3] for row in rows], [["ring", "3", "8192"]])

    def test_bad_input(self):
        for words, part in ((("--collective", "sing"), "all_reduce broadcast"), (("--bytes", "much"), "much"), (("-n", 0), "-n"),
                            (("-n", 2, "--hosts", 3), "1 to 2"), (("--transport", "smoke"), "transport"), (("--bytes", ""), "--bytes"),
                            (("--bytes", "2000000000G"), "1073741824G"), (("--tuning", ""), "--tuning"), (("--collective", "send", "-n", 3), "2 ranks"),
                            (("--collective", "barrier", "--bytes", 8), "no data"), (("-n", 4, "--hosts", 2, "--transport", "shm"), "--transport")):
            outcome = self.expect(run([TUTTI, "explain", *words]), 2)
            self.assertEqual(outcome.out, "")
            self.assertIn(part, outcome.err)
        self.assertIn("/nowhere", self.expect(run([TUTTI, "explain"], TUTTI_TUNING_FILE="/nowhere"), 1).err)

    def logged(self, ranks, transport):
        """The table that the library logs for an all_reduce of 1 MiB."""
        outcome = self.expect(run([BIN / "allreduce_perf", "-t", ranks, "-b", "1M", "-e", "1M", "-n", 1],
                                  TUTTI_DEBUG="INFO", TUTTI_DEBUG_SUBSYS="TUNE", TUTTI_TRANSPORT=transport), 0)
        lines = outcome.err.splitlines()
        head = f"all_reduce of 1048576 to 1310719 bytes over {ranks} ranks"
        heads = [i for i, line in enumerate(lines) if line.endswith(head)]
        self.assertEqual(len(heads), 1, "once for a size class, by one rank")
        rows = [line.split(" TUTTI INFO ")[1].split() for line in lines[heads[0] + 2:heads[0] + 8]]
        self.assertEqual(rows[0][-1], "chosen")
        return rows

    def test_the_library_logs_the_same_table(self):
        # The size that stands for its class.
        for ranks, transport in ((2, "shm"), (12, "shm"), (3, "tcp")):
            with self.subTest(ranks=ranks, transport=transport):
                self.assertEqual(self.logged(ranks, transport),
                                 self.table("-n", ranks, "--bytes", 1179647, "--transport", transport)[0])


if __name__ == "__main__":
    unittest.main()
