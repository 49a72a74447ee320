"""Ranks of a process group for the tests: processes that are spawned, or that a test starts as scripts."""

import os
import subprocess
import sys

import pytest


@pytest.fixture
def run_ranks(tmp_path):
    """run_ranks(n, source, **environment): `source` in n processes, in which `rank`, `size`, torch, dist and tutti.torch
    exist and init() joins the group. Returns [(status, stdout, stderr)]."""
    started = []

    def run(n, source, only=None, seconds=100, **extra):
        prologue = f"""
import datetime, os, sys, time, torch, torch.distributed as dist, tutti.torch
rank, size = int(sys.argv[1]), {n}
def init(seconds=60, **more):
    dist.init_process_group("tutti", init_method="file://{tmp_path}/meeting", rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=seconds), **more)
"""
        script = tmp_path / "ranks.py"
        script.write_text(prologue + source)
        for rank in range(n) if only is None else only:
            started.append(subprocess.Popen([sys.executable, str(script), str(rank)], env={**os.environ, "OMP_NUM_THREADS": "1", **extra},
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        results = [process.communicate(timeout=seconds) for process in started]
        return [(process.returncode, *texts) for process, texts in zip(started, results)]

    yield run
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def pass_on_ranks(run_ranks):
    """Like run_ranks, for a source that all ranks must end without error."""

    def run(n, source, **more):
        for rank, (status, out, err) in enumerate(run_ranks(n, source, **more)):
            assert status == 0, f"rank {rank} ended with {status}\n{out}\n{err}"

    return run
