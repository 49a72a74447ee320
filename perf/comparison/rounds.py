"""Runs the subjects in turns, A B C A B C ..., with the distance of the two processors measured on the way."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

from . import programs, subjects
from .programs import Missing


MOST_FAILURES = 2  # then a subject is left out of a case: it would only cost time


class Failed(Exception):
    """A run that did not end well, in words, and what it had printed by then."""

    def __init__(self, why, out=""):
        super().__init__(why)
        self.out = out


def run_program(argv, variables, timeout_s):
    """Its stdout. It gets a process group of its own, so that at a timeout its ranks end with it."""
    process = subprocess.Popen(argv, env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               stdin=subprocess.DEVNULL, text=True, start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)  # launchers end their ranks
        try:
            out, _ = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
        raise Failed(f"not done after {timeout_s:.0f} s", out) from None
    if process.returncode != 0:
        lines = [line for line in err.splitlines() + out.splitlines() if line.strip(" -")]
        raise Failed(f"exit status {process.returncode}: {' '.join(lines[:3])}", out)
    return out


def json_lines(text):
    """The objects among the lines; a last line may have been cut off."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]


def distance_ns(pingpong):
    """One way of a cache line between two processors; None where there is only one to use, or it could not be told."""
    if subjects.CORES < 2:
        return None
    try:
        return json_lines(run_program([str(pingpong)], {}, 10))[0]["one_way_ns"]
    except Failed:
        return None


@contextlib.contextmanager
def machine_to_itself(path):
    """Holds flock(1)'s exclusive lock on `path`, if there is one: whoever else takes the same lock waits."""
    if path is None:
        yield
        return
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Comparison:
    def __init__(self, everybody, sizes, seconds, timeout_s, lock=None, say=print):
        self.subjects, self.sizes, self.seconds = everybody, sizes, seconds
        self.timeout_s, self.lock, self.say = timeout_s, lock, say
        self.pingpong = programs.pingpong()
        self.missing = {}  # name -> why
        self.failures = {}  # (case, name) -> how often

    def start(self, case):
        """[(subject, argv)] of those that can be measured; compiles what needs to be."""
        started = []
        for subject in self.subjects:
            if not subject.measures(case) or subject.name in self.missing:
                continue
            if self.failures.get((case, subject.name), 0) >= MOST_FAILURES:
                continue
            try:
                started.append((subject, subject.command(case)))
            except Missing as missing:
                self.missing[subject.name] = str(missing)
                self.say(f"{subject.name}: {missing}")
        return started

    def run(self, subject, argv, case):
        """One run: {"ping_ns": [before, after], "results": [...]}, and "error" where it did not end well."""
        sizes = [size for size in self.sizes if subject.kind != "floor" or size % 4096 == 0]
        if not sizes:
            return None
        argv = argv + ["--collective", case.collective, "--sizes", ",".join(map(str, sizes))]
        argv += ["--seconds", str(self.seconds)]
        run = {"subject": subject.name, "kind": subject.kind}
        before = distance_ns(self.pingpong)
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder)
            if case.nranks <= subjects.CORES and not subject.unbound:
                (store / "distance").write_bytes(bytes(4096))
                argv += ["--distance", str(store / "distance")]
            if subject.needs_store:
                (store / "store").mkdir()
                argv += ["--store", str(store / "store")]
            try:
                run["results"] = json_lines(run_program(argv, subject.variables(case), self.timeout_s))
            except Failed as failed:  # the sizes that it got through still count
                run.update(error=str(failed), results=json_lines(failed.out))
                self.failures[case, subject.name] = self.failures.get((case, subject.name), 0) + 1
                self.say(f"{subject.name}: {failed}")
        run["ping_ns"] = [before, distance_ns(self.pingpong)]
        return run

    def round(self, case, number):
        """The runs of one round, alone on the machine. The order turns with each round: nobody is always first."""
        started = self.start(case)
        turn = number % len(started) if started else 0
        runs = []
        with machine_to_itself(self.lock):
            for subject, argv in started[turn:] + started[:turn]:
                run = self.run(subject, argv, case)
                if run is not None:
                    runs.append({"round": number, **run})
        return runs
