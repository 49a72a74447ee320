"""Runs one program and hands back what it said; shared by the tests of the tools' programs."""

import os
import subprocess
import unittest
from pathlib import Path

import ranks

BIN = Path(os.environ["TOOLS_UNDER_TEST"])


class Outcome:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def __str__(self):
        return f"status {self.status}\n---- out\n{self.out}\n---- err\n{self.err}"


def run(command, seconds=60, stdin=subprocess.DEVNULL, cwd=None, **environment) -> Outcome:
    done = subprocess.run([str(word) for word in command], env=ranks.clean_environment(**environment), stdin=stdin, capture_output=True, text=True, timeout=seconds,
                          cwd=cwd, errors="replace")
    return Outcome(done.returncode, done.stdout, done.stderr)


class ProgramTest(unittest.TestCase):
    def expect(self, outcome: Outcome, status: int) -> Outcome:
        self.assertEqual(outcome.status, status, outcome)
        return outcome
