"""Starts and stops ranks for the script tests, and tells ctest when a test cannot run here.

Everything started is a child of this process in a process group of its own, and is ended by its id when the Ranks
object closes, whatever happens.
"""

import contextlib
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SKIP_STATUS = 77  # SKIP_RETURN_CODE of every script test


def skip(reason: str):
    print(f"SKIP: {reason}")
    sys.exit(SKIP_STATUS)


def free_port(family=socket.AF_INET) -> int:
    """A port that was free a moment ago. The hub tries its neighbours when somebody else was faster."""
    with socket.socket(family) as probe:
        probe.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        return probe.getsockname()[1]


# Debian's torchrun (1.13 under Python 3.11) fails unless it is told where output goes. Each line then begins with the
# rank's "[default0]:".
TORCHRUN_OUTPUT = ("--redirects=1", "--tee=1")


def clean_environment(**extra: str) -> dict:
    """This process's environment without anything that a launcher or a person set for ranks, plus `extra`."""
    # PYTHONUNBUFFERED: a line and its end would be two writes, between which those of other ranks may come.
    mine = re.compile(r"^(PYTHONUNBUFFERED$|TUTTI_|OMPI_|PMI_|PMIX_|SLURM_|MPI_|HYDRA_|(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT)$)")
    return {**{name: value for name, value in os.environ.items() if not mine.match(name)}, **extra}


def rank_environment(rank: int, nranks: int, port: int, address="127.0.0.1", local_rank=None, **extra: str) -> dict:
    """torchrun's variables, as a person sets them by hand."""
    return clean_environment(RANK=str(rank), WORLD_SIZE=str(nranks), LOCAL_RANK=str(rank if local_rank is None else local_rank),
                             MASTER_ADDR=address, MASTER_PORT=str(port), **extra)


class Ranks(contextlib.AbstractContextManager):
    """Processes by rank, their output in files of a temporary folder."""

    def __init__(self):
        self.processes = {}
        self._folder = tempfile.TemporaryDirectory(prefix="tutti-test-")
        self._signal = signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    def start(self, rank: int, command, environment, **options) -> subprocess.Popen:
        with open(self.folder / f"{rank}.out", "wb") as out, open(self.folder / f"{rank}.err", "wb") as err:
            self.processes[rank] = subprocess.Popen([str(word) for word in command], env=environment, stdout=options.pop("stdout", out),
                                                    stderr=err, stdin=subprocess.DEVNULL, start_new_session=True, **options)
        return self.processes[rank]

    def wait(self, seconds: float, ranks=None) -> dict:
        """Exit statuses of all (or the named) ranks; a rank that has not ended when the time is up fails the test."""
        deadline = time.monotonic() + seconds
        statuses = {}
        for rank in self.processes if ranks is None else ranks:
            try:
                statuses[rank] = self.processes[rank].wait(max(0.01, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.fail(f"rank {rank} has not ended after {seconds:g} s")
        return statuses

    def output(self, rank: int, stream="out") -> str:
        return (self.folder / f"{rank}.{stream}").read_text(errors="replace")

    def fail(self, reason: str):
        for rank in self.processes:
            for stream in ("out", "err"):
                path = self.folder / f"{rank}.{stream}"
                text = path.read_text(errors="replace") if path.exists() else ""
                if text:
                    print(f"---- rank {rank}, std{stream}\n{text}")
        sys.exit(f"FAILED: {reason}")

    def expect(self, condition, reason: str):
        if not condition:
            self.fail(reason)

    def expect_success(self, seconds: float):
        statuses = self.wait(seconds)
        self.expect(not any(statuses.values()), f"exit statuses by rank: {statuses}")

    def __exit__(self, *_):
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdout:
                process.stdout.close()
        signal.signal(signal.SIGTERM, self._signal)
        self._folder.cleanup()


def read_line(stream, seconds: float) -> str:
    """The next line of an unbuffered pipe; empty at its end or when the time is up."""
    deadline = time.monotonic() + seconds
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(max(0, deadline - time.monotonic())):
                return ""
            byte = os.read(stream.fileno(), 1)
            if not byte:
                return ""
            line += byte
    return line.decode(errors="replace")


def perf_results(path) -> list:
    """The result rows of a perf tool's JSON file."""
    document = json.loads(Path(path).read_text())
    rows = document["results"] if isinstance(document, dict) else document
    if not rows:
        sys.exit(f"FAILED: {path} holds no results")
    return rows


def wrong_count(rows) -> int:
    """How many elements were wrong, in and out of place, over all rows. A row that was not checked counts as wrong."""
    total = 0
    for row in rows:
        for place in ("out_of_place", "in_place"):
            if row.get(place):
                wrong = row[place].get("nwrong")
                total += 1 if wrong in (None, "N/A") else int(wrong)
    return total


def transports(rows) -> set:
    """Every transport that the rows name, listed or comma-separated."""
    names = set()
    for row in rows:
        value = row["transport"]
        names |= set(value.split(",") if isinstance(value, str) else value)
    return names
