"""`tutti run`: what ranks get, how their end is told, and that nothing of them outlives it. The ranks are shell scripts."""

import os
import select
import signal
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

import ranks
from process import BIN, ProgramTest, run

TUTTI = BIN / "tutti"
SOON = 30  # seconds: more than anything here needs on a busy machine


def tutti_run(nranks, script, *options, **extra):
    return run([TUTTI, "run", "-n", nranks, *options, "--", "/bin/sh", "-c", script], **extra)


class Process:
    """Somebody else's process, to wait for its end."""

    def __init__(self, pid):
        try:
            self.fd = os.pidfd_open(int(pid))
        except ProcessLookupError:
            self.fd = None

    def ended(self, seconds) -> bool:
        if self.fd is None:
            return True
        ready, _, _ = select.select([self.fd], [], [], seconds)
        return bool(ready)

    def __del__(self):
        if self.fd is not None:
            os.close(self.fd)


class Background:
    """`tutti run` that is read from and signalled while it runs."""

    def __init__(self, nranks, script, *options):
        self.lines = []
        self.process = subprocess.Popen([str(TUTTI), "run", "-n", str(nranks), *options, "--", "/bin/sh", "-c", script],
                                        env=ranks.clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, bufsize=0)

    def __enter__(self):
        return self

    def wait_for_lines(self, count):
        while len(self.lines) < count:
            line = ranks.read_line(self.process.stdout, SOON)
            if not line:
                raise AssertionError(f"{count} lines did not come: {self.lines}")
            self.lines.append(line.strip())
        return self.lines

    def finish(self):
        """(exit status, all output, errors)"""
        out, err = self.process.communicate(timeout=SOON)
        return self.process.returncode, "\n".join(self.lines) + "\n" + out.decode(), err.decode()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


class Environment(ProgramTest):
    def test_ranks_are_told_who_and_where_they_are(self):
        outcome = self.expect(tutti_run(3, 'echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR"'), 0)
        self.assertEqual(sorted(outcome.out.splitlines()), [f"{r} 3 {r} 3 127.0.0.1" for r in range(3)])

    def test_all_get_one_port_that_is_free_and_one_job(self):
        outcome = self.expect(tutti_run(2, 'echo "$MASTER_PORT $TUTTI_JOB_ID"'), 0)
        lines = outcome.out.splitlines()
        self.assertEqual(lines[0], lines[1])
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", int(lines[0].split()[0])))
        again = tutti_run(1, 'echo "$MASTER_PORT $TUTTI_JOB_ID"').out.split()
        self.assertNotEqual(lines[0].split()[1], again[1])

    def test_env_comes_last(self):
        outcome = self.expect(tutti_run(2, 'echo "$A $B $MASTER_PORT"', "--env", "A=1=2", "--env", "B=", "--env", "MASTER_PORT=77", A="0"), 0)
        self.assertEqual(outcome.out, "1=2  77\n" * 2)

    def test_only_rank_0_reads_standard_input(self):
        with tempfile.TemporaryFile("w+") as words:
            words.write("hello\n")
            words.seek(0)
            outcome = self.expect(tutti_run(2, 'read word; echo "$RANK:$word"', stdin=words), 0)
        self.assertEqual(sorted(outcome.out.splitlines()), ["0:hello", "1:"])

    def test_arguments_arrive_as_they_are(self):
        outcome = self.expect(run([TUTTI, "run", "-n", 1, "--", "/bin/echo", "-n", "--", "a b", "*"]), 0)
        self.assertEqual(outcome.out, "-- a b *")

    def test_dashes_may_be_left_out(self):
        self.assertEqual(self.expect(run([TUTTI, "run", "-n", 1, "/bin/echo", "hi"]), 0).out, "hi\n")

    def test_options_of_the_program_are_its_own(self):
        for words, out in ((("--", "/bin/echo", "--foo", "-n", "7"), "--foo -n 7\n"), (("/bin/echo", "--foo", "-n", "7"), "--foo -n 7\n"),
                           (("/bin/echo", "a", "--", "b"), "a -- b\n"), (("/bin/echo", "--help", "--"), "--help --\n")):
            with self.subTest(words):
                self.assertEqual(self.expect(run([TUTTI, "run", "-n", 1, *words], POSIXLY_CORRECT="1"), 0).out, out)


class Usage(ProgramTest):
    def bad(self, *words, status=2, **environment):
        outcome = self.expect(run([TUTTI, "run", *words], **environment), status)
        self.assertEqual(outcome.out, "")
        self.assertEqual(outcome.err.count("\n"), 1, outcome)
        return outcome.err

    def test_bad_command_lines(self):
        self.assertIn("--nranks", self.bad("--", "/bin/true"))
        self.assertIn("0", self.bad("-n", "0", "--", "/bin/true"))
        self.assertIn("many", self.bad("-n", "many", "--", "/bin/true"))
        self.assertIn("no program", self.bad("-n", "2"))
        self.assertIn("NAME=value", self.bad("-n", "2", "--env", "X", "--", "/bin/true"))
        self.assertIn("NAME=value", self.bad("-n", "2", "--env", "=X", "--", "/bin/true"))

    def test_unknown_options_are_refused(self):
        for words in (("--foo", "-n", "1", "/bin/echo"), ("-n", "1", "--foo", "--", "/bin/echo"), ("-n", "1", "--foo", "3", "/bin/echo"),
                      ("--foo", "/bin/echo"), ("-n", "1", "--foo")):
            with self.subTest(words):
                error = self.bad(*words)
                self.assertIn("--foo", error)
                self.assertIn("tutti run --help", error)
        self.assertIn("-q", self.bad("-q", "-n", "1", "--", "/bin/echo"))

    def test_no_such_program(self):
        self.assertIn("PATH", self.bad("-n", "2", "--", "no-such-program-anywhere", status=127))
        self.assertIn("/no/such", self.bad("-n", "2", "--", "/no/such/program", status=127))

    def test_not_a_program(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "data"
            file.write_text("no program")
            self.assertIn("x permission", self.bad("-n", "2", "--", file, status=126))
            file.chmod(0o755)
            self.assertIn("ENOEXEC", self.bad("-n", "2", "--", file, status=1))

    def test_a_script_without_its_interpreter(self):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "script"
            script.write_text("#!/no/such/interpreter\n")
            script.chmod(0o755)
            self.assertIn("interpreter", self.bad("-n", "2", "--", script, status=1))

    def test_program_from_path(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "my-rank"
            file.write_text("#!/bin/sh\necho mine\n")
            file.chmod(0o755)
            outcome = self.expect(run([TUTTI, "run", "-n", 1, "--", "my-rank"], PATH=f"/no/such:{folder}"), 0)
            self.assertEqual(outcome.out, "mine\n")


class Failures(ProgramTest):
    def test_all_well(self):
        outcome = self.expect(tutti_run(4, "exit 0"), 0)
        self.assertEqual(outcome.err, "")

    def test_exit_status_of_the_rank_that_failed_first(self):
        # The others answer to the failure with another status; they wait for it, they do not race with it.
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/fifo")
            script = f'[ $RANK = 2 ] && exit 7; trap "exit 9" TERM; read x <>{folder}/fifo'
            outcome = self.expect(tutti_run(4, script, "--timeout-kill", "100"), 7)
        self.assertIn("rank 2 ", outcome.err)
        self.assertIn("exit status 7", outcome.err)

    def test_a_killed_rank_is_named_with_its_signal(self):
        outcome = self.expect(tutti_run(3, '[ $RANK = 1 ] && kill -9 $$; exec cat /dev/zero >/dev/null', "--timeout-kill", "100"), 128 + 9)
        self.assertRegex(outcome.err, r"rank 1 \(pid \d+\) was killed by SIGKILL")

    def test_others_may_end_by_themselves_within_the_grace(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/fifo")
            # Rank 0 opens the pipe for writing when rank 1 has gone: it is told by the end of rank 1's file. That comes a
            # moment before rank 1's status, so rank 0 must not fail too: either may be the first that is seen.
            script = f'if [ $RANK = 1 ]; then exec 3>{folder}/fifo; exit 3; fi; cat {folder}/fifo; echo "saw it"'
            outcome = self.expect(tutti_run(2, script), 3)
        self.assertIn("saw it", outcome.out)
        self.assertNotIn("SIGTERM", outcome.err)

    def test_stragglers_get_sigterm_then_sigkill(self):
        script = '[ $RANK = 0 ] && exit 5; trap "" TERM; echo up; exec cat /dev/zero >/dev/null'
        outcome = self.expect(tutti_run(2, script, "--timeout-kill", "100"), 5)
        self.assertIn("SIGTERM to rank 1", outcome.err)
        self.assertIn("SIGKILL to rank 1", outcome.err)

    def test_nobody_is_ended_when_none_is_left(self):
        outcome = self.expect(tutti_run(1, "exit 5", "--timeout-kill", "0"), 5)
        self.assertNotIn("sending", outcome.err)

    def test_a_stopped_rank_is_ended(self):
        self.expect(tutti_run(2, '[ $RANK = 0 ] && exit 5; kill -STOP $$', "--timeout-kill", "100"), 5)


class Signals(ProgramTest):
    BUSY = "echo up; while :; do head -c 1000000 /dev/zero >/dev/null; done"

    def test_a_signal_reaches_every_rank(self):
        with Background(3, f'trap "echo usr1; exit 0" USR1; {self.BUSY}') as b:
            b.wait_for_lines(3)
            b.process.send_signal(signal.SIGUSR1)
            status, out, err = b.finish()
        self.assertEqual(status, 0, err)
        self.assertEqual(out.count("usr1"), 3)

    def test_sigterm_ends_the_ranks(self):
        with Background(2, "echo $$; exec cat /dev/zero >/dev/null") as b:
            processes = [Process(pid) for pid in b.wait_for_lines(2)]
            b.process.send_signal(signal.SIGTERM)
            status, _, err = b.finish()
        self.assertEqual(status, 128 + signal.SIGTERM)
        self.assertIn("SIGTERM", err)
        self.assertTrue(all(process.ended(0) for process in processes))

    def test_sigint_is_left_to_ranks_that_clean_up(self):
        with Background(2, f'trap "echo clean; exit 0" INT; {self.BUSY}') as b:
            b.wait_for_lines(2)
            b.process.send_signal(signal.SIGINT)
            status, out, err = b.finish()
        self.assertEqual(status, 0, err)
        self.assertEqual(out.count("clean"), 2)

    def test_ranks_that_ignore_sigint_are_ended(self):
        with Background(2, 'trap "" INT; echo up; exec cat /dev/zero >/dev/null', "--timeout-kill", "100") as b:
            b.wait_for_lines(2)
            b.process.send_signal(signal.SIGINT)
            self.assertEqual(b.finish()[0], 128 + signal.SIGTERM)


class Orphans(ProgramTest):
    def test_ranks_die_with_a_launcher_that_is_killed(self):
        with Background(3, "echo $$; exec cat /dev/zero >/dev/null") as b:
            processes = [Process(pid) for pid in b.wait_for_lines(3)]
            b.process.kill()
            b.finish()
            for process in processes:
                self.assertTrue(process.ended(SOON), "ranks outlive the launcher")

    def test_what_a_rank_leaves_behind_ends_with_it(self):
        outcome = self.expect(tutti_run(2, 'cat /dev/zero >/dev/null & echo $!'), 0)
        for pid in outcome.out.split():
            self.assertTrue(Process(pid).ended(SOON))


class Labels(ProgramTest):
    def test_every_line_has_its_rank(self):
        outcome = self.expect(tutti_run(3, 'echo one; echo "two $RANK" >&2; printf "no newline"', "--label"), 0)
        self.assertEqual(sorted(outcome.out.splitlines()), sorted(f"[{r}] {text}" for r in range(3) for text in ("one", "no newline")))
        self.assertEqual(sorted(outcome.err.splitlines()), [f"[{r}] two {r}" for r in range(3)])

    def test_much_output_arrives_whole(self):
        outcome = self.expect(tutti_run(2, 'i=0; while [ $i -lt 20000 ]; do echo "$RANK $i"; i=$((i+1)); done', "--label"), 0)
        for rank in range(2):
            mine = [line for line in outcome.out.splitlines() if line.startswith(f"[{rank}]")]
            self.assertEqual(mine, [f"[{rank}] {rank} {i}" for i in range(20000)])

    def test_the_failure_stands_behind_what_the_rank_said(self):
        outcome = self.expect(tutti_run(1, "echo last words >&2; exit 3", "--label"), 3)
        self.assertLess(outcome.err.index("[0] last words"), outcome.err.index("exit status 3"))


class Loopback(ProgramTest):
    """Where the ranks meet, on hosts without the usual loopback."""

    def on_a_host(self, setup, *options):
        shell = f"{setup} && exec {TUTTI} run -n 2 {' '.join(options)} -- /bin/sh -c 'echo $MASTER_ADDR $MASTER_PORT'"
        if run(["unshare", "--net", "true"]).status != 0:
            self.skipTest("network namespaces need root")
        return run(["unshare", "--net", "/bin/sh", "-c", shell])

    def test_without_an_ipv4_address_the_ranks_meet_on_ipv6(self):
        outcome = self.expect(self.on_a_host("ip link set lo up && ip address delete 127.0.0.1/8 dev lo"), 0)
        self.assertEqual({line.split()[0] for line in outcome.out.splitlines()}, {"::1"})

    def test_without_loopback_the_error_says_so(self):
        outcome = self.expect(self.on_a_host("ip link set lo down"), 1)
        for word in ("127.0.0.1", "::1", "ip link set lo up"):
            self.assertIn(word, outcome.err)

    def test_a_given_address_is_where_a_port_is_looked_for(self):
        outcome = self.expect(self.on_a_host("ip link set lo up && ip address add 10.9.8.7/32 dev lo", "--env", "MASTER_ADDR=10.9.8.7"), 0)
        self.assertEqual({line.split()[0] for line in outcome.out.splitlines()}, {"10.9.8.7"})
        self.assertEqual(len(set(outcome.out.splitlines())), 1)

    def test_an_address_of_another_host_needs_a_port(self):
        outcome = self.expect(tutti_run(2, "true", "--env", "MASTER_ADDR=192.0.2.1"), 126)
        self.assertIn("192.0.2.1", outcome.err)
        self.assertIn("MASTER_PORT", outcome.err)


if __name__ == "__main__":
    unittest.main()
